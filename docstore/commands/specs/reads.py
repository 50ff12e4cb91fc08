"""Commands that read documents."""

from __future__ import annotations

from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.access.document_needs import aggregate_needs, get_more_needs, group_needs, map_reduce_needs
from docstore.commands.access.explained_needs import explain_needs
from docstore.commands.declaration import Parameter, Privilege, Resource, Role, Spec, Type
from docstore.commands.exhaust import following_batch
from docstore.commands.specs.options import BYPASS, COLLATION, CURSOR, HINT, LET
from docstore.errors import Code

_READ = Privilege("find", Resource.COLLECTION)

FIND = Spec(
    "find", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION, read_concern=True, snapshot_reads=True,
    stable=True,
    pausable=True, repeatable=True,
    parameters=(
        Parameter("filter", Type.STRICT_OBJECT),
        Parameter("sort", Type.STRICT_OBJECT),
        Parameter("projection", Type.STRICT_OBJECT),
        HINT,
        Parameter("skip", Type.INT, default=0, minimum=0),
        Parameter("limit", Type.INT, default=0, minimum=0),
        Parameter("batchSize", Type.INT, minimum=0),
        Parameter("singleBatch", Type.STRICT_BOOL, default=False),
        Parameter("noCursorTimeout", Type.STRICT_BOOL, default=False),
        Parameter("tailable", Type.STRICT_BOOL, default=False),
        Parameter("awaitData", Type.STRICT_BOOL, default=False),
        Parameter("oplogReplay", Type.STRICT_BOOL, default=False),
        Parameter("allowPartialResults", Type.STRICT_BOOL, default=False),
        Parameter("allowDiskUse", Type.STRICT_BOOL, default=True),
        Parameter("returnKey", Type.STRICT_BOOL, default=False),
        Parameter("showRecordId", Type.STRICT_BOOL, default=False),
        Parameter("min", Type.STRICT_OBJECT),
        Parameter("max", Type.STRICT_OBJECT),
        COLLATION,
        LET,
    ),
    in_transactions=True, help="the documents that match a filter",
)  # fmt: skip
"""`oplogReplay` has no effect here, and `allowPartialResults` only on routers."""

GET_MORE = Spec(
    "getMore", aliases=("getmore",), privilege=_READ, role=Role.ANY, value=Type.LONG, own_deadline=True, stable=True,
    read_concern=True, snapshot_reads=True, following=following_batch,
    pausable=True,
    parameters=(
        Parameter("collection", Type.COLLECTION, required=True),
        Parameter("batchSize", Type.INT, minimum=0),
    ),
    in_transactions=True, needs=get_more_needs,
    help="the next batch of a cursor",
)  # fmt: skip

AGGREGATE = Spec(
    "aggregate", privilege=_READ, role=Role.SECONDARY_OK, value=(Type.COLLECTION, Type.NUMBER), read_concern=True,
    snapshot_reads=True, write_concern=True, stable=True,
    pausable=True, repeatable=True,
    parameters=(
        Parameter("pipeline", Type.DOCUMENTS, required=True),
        CURSOR,
        Parameter("explain", Type.BOOL, default=False),
        Parameter("allowDiskUse", Type.SAFE_BOOL, default=True),
        BYPASS,
        HINT,
        COLLATION,
        LET,
    ),
    in_transactions=True, needs=aggregate_needs,
    help="run a pipeline over a collection",
)  # fmt: skip

COUNT = Spec(
    "count", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION, wrong_name=Code.InvalidNamespace,
    read_concern=True, stable=True,
    pausable=True, repeatable=True,
    parameters=(
        Parameter("query", Type.OBJECT),
        Parameter("limit", Type.WHOLE, default=0),
        Parameter("skip", Type.INT, default=0, minimum=0),
        HINT,
        Parameter("fields", Type.ANY),
        COLLATION,
    ),
    help="how many documents match",
)  # fmt: skip

DISTINCT = Spec(
    "distinct", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION, wrong_name=Code.InvalidNamespace,
    read_concern=True, snapshot_reads=True,
    pausable=True, repeatable=True,
    parameters=(Parameter("key", Type.STRING, required=True), Parameter("query", Type.OBJECT), HINT, COLLATION),
    in_transactions=True, help="the different values at a path",
)  # fmt: skip

EXPLAIN = Spec(
    "explain", privilege=_READ, role=Role.SECONDARY_OK, value=Type.OBJECT, stable=True, wraps_command=True,
    pausable=True, repeatable=True,
    parameters=(Parameter("verbosity", Type.STRING, default="allPlansExecution"),),
    needs=explain_needs, help="how a command would be carried out",
)  # fmt: skip

MAP_REDUCE = Spec(
    "mapReduce", aliases=("mapreduce",), privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    write_concern=True, read_concern=True,
    parameters=(
        Parameter("map", Type.ANY, required=True),
        Parameter("reduce", Type.ANY, required=True),
        Parameter("finalize", Type.ANY),
        Parameter("out", Type.ANY, required=True),
        Parameter("query", Type.OBJECT, default=EMPTY_DOCUMENT),
        Parameter("sort", Type.OBJECT, default=EMPTY_DOCUMENT),
        Parameter("limit", Type.INT),
        Parameter("scope", Type.ANY),
        Parameter("verbose", Type.BOOL, default=True),
        Parameter("jsMode", Type.BOOL, default=False),
        Parameter("bypassDocumentValidation", Type.BOOL, default=False),
        COLLATION,
    ),
    needs=map_reduce_needs, help="map and reduce the documents of a collection with JavaScript functions",
)  # fmt: skip

GROUP = Spec(
    "group", privilege=Privilege("find", Resource.DATABASE), role=Role.SECONDARY_OK, value=Type.OBJECT,
    read_concern=True, needs=group_needs,
    help="fold the documents of a collection into one result for each key",
)  # fmt: skip
