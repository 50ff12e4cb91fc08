"""Commands about databases, collections and indexes."""

from __future__ import annotations

from docstore.commands.access.catalog_needs import (
    clone_as_capped_needs,
    coll_mod_needs,
    create_needs,
    list_collections_needs,
    no_needs,
    rename_needs,
)
from docstore.commands.declaration import Parameter, Privilege, Resource, Role, Spec, Type
from docstore.commands.limits import MAX_CAPPED_BYTES, MAX_CAPPED_DOCUMENTS
from docstore.commands.specs.options import COLLATION, CURSOR
from docstore.errors import Code

_VALIDATION = (
    Parameter("validator", Type.OBJECT),
    Parameter("validationLevel", Type.STRING),
    Parameter("validationAction", Type.STRING),
    Parameter("viewOn", Type.STRING),
    Parameter("pipeline", Type.DOCUMENTS),
)
_IMAGES = Parameter("changeStreamPreAndPostImages", Type.OBJECT)

CREATE = Spec(
    "create", privilege=Privilege("createCollection", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    stable=True, pausable=True,
    parameters=(
        Parameter("capped", Type.SAFE_BOOL, default=False),
        Parameter("size", Type.INT, minimum=1, maximum=MAX_CAPPED_BYTES),
        Parameter("max", Type.INT, maximum=MAX_CAPPED_DOCUMENTS),
        Parameter("autoIndexId", Type.SAFE_BOOL),
        Parameter("idIndex", Type.OBJECT),
        *_VALIDATION,
        Parameter("storageEngine", Type.OBJECT),
        Parameter("indexOptionDefaults", Type.OBJECT),
        Parameter("expireAfterSeconds", Type.INT),
        Parameter("temp", Type.SAFE_BOOL),
        Parameter("flags", Type.INT),
        Parameter("recordPreImages", Type.SAFE_BOOL),
        COLLATION,
        _IMAGES,
        Parameter("timeseries", Type.OBJECT),
        Parameter("clusteredIndex", Type.ANY),
        Parameter("encryptedFields", Type.OBJECT, unsupported="encrypted collections are not supported"),
    ),
    in_transactions=True, needs=create_needs,
    help="make a collection",
)  # fmt: skip

COLL_MOD = Spec(
    "collMod", aliases=("collmod",), privilege=Privilege("collMod", Resource.COLLECTION), role=Role.PRIMARY,
    user_first=True,
    value=Type.COLLECTION, stable=True, pausable=True,
    parameters=(
        Parameter("index", Type.OBJECT),
        *_VALIDATION,
        Parameter("cappedSize", Type.INT, minimum=1, maximum=MAX_CAPPED_BYTES),
        Parameter("cappedMax", Type.INT, maximum=MAX_CAPPED_DOCUMENTS),
        Parameter("dryRun", Type.SAFE_BOOL, default=False),
        Parameter("expireAfterSeconds", Type.ANY),
        Parameter("timeseries", Type.OBJECT),
        _IMAGES,
    ),
    needs=coll_mod_needs, help="change the options of a collection",
)  # fmt: skip

DROP = Spec(
    "drop", privilege=Privilege("dropCollection", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    stable=True, help="remove a collection",
)  # fmt: skip

DROP_DATABASE = Spec(
    "dropDatabase", aliases=("dropdatabase",), privilege=Privilege("dropDatabase", Resource.DATABASE),
    role=Role.PRIMARY, stable=True, help="remove a database",
)  # fmt: skip

RENAME_COLLECTION = Spec(
    "renameCollection", aliases=("renamecollection",), privilege=Privilege("renameCollectionSameDB", Resource.DATABASE),
    role=Role.PRIMARY, admin_only=True, value=Type.NAMESPACE,
    parameters=(
        Parameter("to", Type.NAMESPACE, required=True),
        Parameter("dropTarget", Type.SAFE_BOOL, default=False),
        Parameter("stayTemp", Type.SAFE_BOOL, unsupported="there are no temporary collections"),
    ),
    needs=rename_needs, help="give a collection another name",
)  # fmt: skip

CONVERT_TO_CAPPED = Spec(
    "convertToCapped", aliases=("converttocapped",), privilege=Privilege("convertToCapped", Resource.COLLECTION),
    role=Role.PRIMARY, user_first=True, value=Type.COLLECTION, tolerant=True, parameters=(Parameter("size", Type.ANY),),
    help="make a collection capped",
)  # fmt: skip

CLONE_COLLECTION_AS_CAPPED = Spec(
    "cloneCollectionAsCapped", aliases=("clonecollectionascapped",), privilege=Privilege("find", Resource.COLLECTION),
    role=Role.PRIMARY, value=Type.COLLECTION, tolerant=True,
    parameters=(Parameter("toCollection", Type.STRING), Parameter("size", Type.ANY)),
    needs=clone_as_capped_needs, help="make a capped copy of a collection",
)  # fmt: skip

CREATE_INDEXES = Spec(
    "createIndexes", aliases=("createindexes",), privilege=Privilege("createIndex", Resource.COLLECTION),
    role=Role.PRIMARY, value=Type.COLLECTION, stable=True, pausable=True,
    parameters=(
        Parameter("indexes", Type.DOCUMENTS, required=True),
        Parameter("ignoreUnknownIndexOptions", Type.SAFE_BOOL, default=False),
        Parameter("commitQuorum", (Type.INT, Type.STRING)),
    ),
    in_transactions=True, help="build indexes",
)  # fmt: skip

DROP_INDEXES = Spec(
    "dropIndexes", aliases=("deleteIndexes", "dropindexes", "deleteindexes"),
    privilege=Privilege("dropIndex", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION, stable=True,
    parameters=(Parameter("index", Type.ANY, required=True),), help="remove indexes",
)  # fmt: skip

LIST_INDEXES = Spec(
    "listIndexes", aliases=("listindexes",), privilege=Privilege("listIndexes", Resource.COLLECTION),
    role=Role.SECONDARY_OK, value=Type.COLLECTION, stable=True,
    parameters=(CURSOR, Parameter("includeBuildUUIDs", Type.SAFE_BOOL, unsupported="index builds have no UUIDs")),
    help="the indexes of a collection",
)  # fmt: skip

LIST_COLLECTIONS = Spec(
    "listCollections", aliases=("listcollections",), privilege=Privilege("listCollections", Resource.DATABASE),
    role=Role.SECONDARY_OK, stable=True, pausable=True,
    parameters=(
        CURSOR,
        Parameter("nameOnly", Type.SAFE_BOOL, default=False),
        Parameter("filter", Type.OBJECT),
        Parameter("authorizedCollections", Type.SAFE_BOOL, default=False),
    ),
    needs=list_collections_needs, help="the collections of a database",
)  # fmt: skip

LIST_DATABASES = Spec(
    "listDatabases", aliases=("listdatabases",), privilege=Privilege("listDatabases", Resource.CLUSTER),
    role=Role.SECONDARY_OK, admin_only=True, stable=True, pausable=True,
    parameters=(
        Parameter("nameOnly", Type.SAFE_BOOL, default=False),
        Parameter("filter", Type.OBJECT),
        Parameter("authorizedDatabases", Type.SAFE_BOOL, default=True),
    ),
    needs=no_needs, help="every database",
)  # fmt: skip

COLL_STATS = Spec(
    "collStats", aliases=("collstats",), privilege=Privilege("collStats", Resource.COLLECTION),
    role=Role.SECONDARY_OK, user_first=True, value=Type.COLLECTION, wrong_name=Code.InvalidNamespace, tolerant=True,
    parameters=(Parameter("scale", Type.INT, default=1, minimum=1),), help="statistics of a collection",
)  # fmt: skip

DB_STATS = Spec(
    "dbStats", aliases=("dbstats",), privilege=Privilege("dbStats", Resource.DATABASE), role=Role.SECONDARY_OK,
    tolerant=True, parameters=(Parameter("scale", Type.ANY), Parameter("freeStorage", Type.ANY)),
    help="statistics of a database",
)  # fmt: skip

VALIDATE = Spec(
    "validate", privilege=Privilege("validate", Resource.COLLECTION), role=Role.ANY, value=Type.COLLECTION,
    user_first=True, wrong_name=Code.InvalidNamespace,
    parameters=tuple(
        Parameter(name, Type.SAFE_BOOL, default=False)
        for name in (
            "full", "scandata", "background", "metadata", "enforceFastCount", "checkBSONConformance", "repair",
        )
    ),
    help="check a collection against its indexes and counters",
)  # fmt: skip

_PLAN_CACHE_SHAPE = tuple(Parameter(name, Type.ANY) for name in ("query", "sort", "projection", "collation"))
"""The query that a plan cache command refers to; it parses them by its own rules."""

PLAN_CACHE_CLEAR = Spec(
    "planCacheClear", privilege=Privilege("planCacheWrite", Resource.COLLECTION), role=Role.SECONDARY_OK,
    user_first=True,
    value=Type.COLLECTION, wrong_name=Code.InvalidNamespace, tolerant=True, parameters=_PLAN_CACHE_SHAPE,
    help="forget the plans kept for a collection, or for a query",
)  # fmt: skip

PLAN_CACHE_SET_FILTER = Spec(
    "planCacheSetFilter", privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION), role=Role.SECONDARY_OK,
    user_first=True,
    value=Type.COLLECTION, wrong_name=Code.InvalidNamespace, tolerant=True,
    parameters=(*_PLAN_CACHE_SHAPE, Parameter("indexes", Type.ANY)),
    help="say which indexes may serve queries of one shape",
)  # fmt: skip

PLAN_CACHE_LIST_FILTERS = Spec(
    "planCacheListFilters", privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION), role=Role.SECONDARY_OK,
    user_first=True,
    value=Type.COLLECTION, wrong_name=Code.InvalidNamespace, tolerant=True,
    help="the index filters of a collection",
)  # fmt: skip

PLAN_CACHE_CLEAR_FILTERS = Spec(
    "planCacheClearFilters", privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION), role=Role.SECONDARY_OK,
    user_first=True,
    value=Type.COLLECTION, wrong_name=Code.InvalidNamespace, tolerant=True, parameters=_PLAN_CACHE_SHAPE,
    help="forget the index filters of a collection, or the one for a query",
)  # fmt: skip

_PART = "dataSize tells of whole collections only"

DATA_SIZE = Spec(
    "dataSize", aliases=("datasize",), privilege=Privilege("find", Resource.COLLECTION), role=Role.SECONDARY_OK,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("estimate", Type.BOOL, default=False),
        Parameter("keyPattern", Type.OBJECT, unsupported=_PART),
        Parameter("min", Type.OBJECT, unsupported=_PART),
        Parameter("max", Type.OBJECT, unsupported=_PART),
        Parameter("maxSize", Type.INT, unsupported=_PART),
        Parameter("maxObjects", Type.INT, unsupported=_PART),
    ),
    help="documents and bytes of a collection",
)  # fmt: skip

SPLIT_VECTOR = Spec(
    "splitVector", privilege=Privilege("splitVector", Resource.COLLECTION), role=Role.PRIMARY, write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("keyPattern", Type.OBJECT, required=True),
        Parameter("min", Type.OBJECT),
        Parameter("max", Type.OBJECT),
        Parameter("maxChunkSize", Type.INT, default=0, minimum=0),
        Parameter("maxChunkSizeBytes", Type.INT, default=0, minimum=0),
        Parameter("maxSplitPoints", Type.INT, default=0, minimum=0),
        Parameter("maxChunkObjects", Type.INT, unsupported="a bound on the number of documents is not supported"),
        Parameter("force", Type.SAFE_BOOL, default=False),
        Parameter("openEnds", Type.BOOL, default=False, internal=True),
    ),
    help="where a chunk should be cut",
)  # fmt: skip
