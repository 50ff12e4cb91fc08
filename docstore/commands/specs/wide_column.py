"""Commands of the wide-column mode."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docstore.bson import get_field
from docstore.commands.access.catalog_needs import batch_mutate_needs, cql_needs, named_database_needs
from docstore.commands.access.need import Need, on_cluster
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import (
    INTERNAL,
    Exceptional,
    Parameter,
    Privilege,
    Resource,
    Role,
    Sequences,
    Spec,
    Type,
)
from docstore.security.privileges import ALL_DATABASES

CONSISTENCY = Parameter("consistency", Type.STRING, default="ONE")
SCHEMA = Parameter("schema", Type.ANY)
"""The digest of the sender's schema (`docstore.widecolumn.model.definition_commands.digest_of`)."""
HINT = Parameter("hint", Type.OBJECT, internal=True)
"""The origin of a hinted write of a router (`docstore.widecolumn.model.hint_origin`)."""
SPREAD = Exceptional(
    "of a router: column families are spread over the shards",
    Parameter("spread", Type.BOOL, default=False, internal=True),
)
_KEY = Parameter("key", Type.ANY, required=True)
_SUPER_COLUMN = Parameter("superColumn", Type.ANY)
_COLUMN = Parameter("column", Type.ANY)
_TIMESTAMP = Parameter("timestamp", Type.ANY)
_PREDICATE = Parameter("predicate", Type.ANY)
_EXPLAIN = Parameter("explain", Type.SAFE_BOOL, default=False)
_READING = (CONSISTENCY, Parameter("bytesAs", Type.STRING), _EXPLAIN)
_ADVISORY = (
    Parameter("keysCached", (Type.NUMBER, Type.STRING)),
    Parameter("rowsCached", (Type.NUMBER, Type.STRING)),
)
_READ = Privilege("find", Resource.COLLECTION)
_INSERT = Privilege("insert", Resource.COLLECTION)
_REMOVE = Privilege("remove", Resource.COLLECTION)
_MAKE_KEYSPACES = Privilege("createCollection", Resource.CLUSTER)


_OF_ROLES = re.compile(rb"(?=.*\b(?:create|alter)\b)(?=.*\b(?:role|user)\b)|.*password", re.DOTALL | re.IGNORECASE)
"""A statement that defines a role, however it is spelt, or speaks of a password."""


def _passwords(raw: bytes, _sequences: Sequences) -> tuple[str, ...]:
    """Return the sensitive fields: a statement that may contain a password, and its bound values."""
    text = get_field(raw, "cql")
    return ("cql", "params") if text is not None and _OF_ROLES.match(text[1]) else ()


CQL = Spec(
    "cql", privilege=Privilege("find", Resource.DATABASE), role=Role.ANY, value=Type.STRING,
    parameters=(
        Parameter("params", Type.ANY),
        CONSISTENCY,
        Parameter("pageSize", Type.INT, default=0, minimum=0),
        Parameter("pagingState", Type.ANY),
    ),
    needs=cql_needs, sensitive=_passwords, pausable=True, help="run a statement of CQL",
)  # fmt: skip


def _configuration_needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
    """A file sets timeouts of the process; with `replace` it drops and changes what there is."""
    actions = ("createCollection", "collMod", "dropCollection") if arguments["replace"] else ("createCollection",)
    return [*(Need(action, ALL_DATABASES) for action in actions), *on_cluster("setParameter")]


CREATE_KEYSPACE = Spec(
    "createKeyspace", privilege=_MAKE_KEYSPACES, role=Role.PRIMARY, value=Type.STRING, admin_only=True,
    parameters=(
        Parameter("replication", Type.OBJECT),
        Parameter("durableWrites", Type.SAFE_BOOL, default=True),
        Parameter("partitioner", Type.STRING),
        Parameter("ifNotExists", Type.SAFE_BOOL, default=False),
    ),
    needs=named_database_needs("createCollection"), help="make a keyspace",
)  # fmt: skip
LOAD_STORAGE_CONF = Spec(
    "loadStorageConf", privilege=_MAKE_KEYSPACES, role=Role.PRIMARY, value=Type.STRING, admin_only=True,
    parameters=(Parameter("replace", Type.SAFE_BOOL, default=False),),
    needs=_configuration_needs, help="make the keyspaces and column families of a storage-conf.xml",
)  # fmt: skip
DESCRIBE_KEYSPACES = Spec(
    "describeKeyspaces", privilege=Privilege("listDatabases", Resource.CLUSTER), role=Role.SECONDARY_OK,
    admin_only=True, help="all keyspaces and their column families",
)  # fmt: skip
DESCRIBE_KEYSPACE = Spec(
    "describeKeyspace", privilege=Privilege("listCollections", Resource.DATABASE), role=Role.SECONDARY_OK,
    help="a keyspace and its column families",
)  # fmt: skip
DROP_KEYSPACE = Spec(
    "dropKeyspace", privilege=Privilege("dropDatabase", Resource.DATABASE), role=Role.PRIMARY, help="drop a keyspace"
)  # fmt: skip

CREATE_COLUMN_FAMILY = Spec(
    "createColumnFamily", privilege=Privilege("createCollection", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.STRING,
    parameters=(
        Parameter("columnType", Type.STRING),
        Parameter("compareWith", Type.STRING),
        Parameter("compareSubcolumnsWith", Type.STRING),
        Parameter("gcGraceSeconds", Type.INT),
        Parameter("defaultTtl", Type.INT),
        *_ADVISORY,
    ),
    help="make a column family",
)  # fmt: skip
ALTER_COLUMN_FAMILY = Spec(
    "alterColumnFamily", privilege=Privilege("collMod", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    parameters=CREATE_COLUMN_FAMILY.parameters, help="change what can be changed of a column family",
)  # fmt: skip
DROP_COLUMN_FAMILY = Spec(
    "dropColumnFamily", privilege=Privilege("dropCollection", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.COLLECTION, help="drop a column family",
)  # fmt: skip
TRUNCATE = Spec(
    "wcTruncate", privilege=_REMOVE, role=Role.PRIMARY, value=Type.COLLECTION,
    parameters=(Parameter("truncatedAt", Type.LONG, internal=True),),
    help="take all rows out of a column family",
)  # fmt: skip

INSERT = Spec(
    "wcInsert", privilege=_INSERT, role=Role.ANY, value=Type.COLLECTION,
    parameters=(
        _KEY,
        _COLUMN,
        Parameter("value", Type.ANY, required=True),
        _SUPER_COLUMN,
        _TIMESTAMP,
        Parameter("ttl", Type.ANY),
        Parameter("valueType", Type.ANY),
        CONSISTENCY,
        HINT,
    ),
    help="insert a column into a row of a column family",
)  # fmt: skip
REMOVE = Spec(
    "wcRemove", privilege=_REMOVE, role=Role.ANY, value=Type.COLLECTION,
    parameters=(_KEY, _SUPER_COLUMN, _COLUMN, _TIMESTAMP, CONSISTENCY, HINT),
    help="delete a column, a super column or a row of a column family",
)  # fmt: skip
BATCH_MUTATE = Spec(
    "wcBatchMutate", privilege=Privilege("insert", Resource.DATABASE), role=Role.ANY,
    parameters=(
        Parameter("mutations", Type.DOCUMENTS, required=True),
        CONSISTENCY,
        Parameter("timestamp", Type.ANY, internal=True),
        HINT,
    ),
    needs=batch_mutate_needs, help="insert and delete columns of many rows",
)  # fmt: skip

GET = Spec(
    "wcGet", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(_KEY, _SUPER_COLUMN, _COLUMN, *_READING), help="a column or a super column of a row",
)  # fmt: skip
GET_SLICE = Spec(
    "wcGetSlice", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(_KEY, _PREDICATE, _SUPER_COLUMN, *_READING), help="columns of a row, by name or by range",
)  # fmt: skip
MULTIGET_SLICE = Spec(
    "wcMultigetSlice", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(Parameter("keys", Type.ARRAY, required=True), _PREDICATE, _SUPER_COLUMN, *_READING),
    help="a slice of each of many rows",
)  # fmt: skip
GET_RANGE_SLICES = Spec(
    "wcGetRangeSlices", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(
        _PREDICATE,
        _SUPER_COLUMN,
        Parameter("range", Type.OBJECT),
        Parameter("count", Type.INT, default=100),
        Parameter("excludeEmpty", Type.SAFE_BOOL, default=False),
        *_READING,
    ),
    help="a slice of each row of a part of the ring",
)  # fmt: skip
GET_COUNT = Spec(
    "wcGetCount", privilege=_READ, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(_KEY, _SUPER_COLUMN, CONSISTENCY, _EXPLAIN), help="the number of live columns of a row",
)  # fmt: skip

APPLY_ROWS = Spec(
    "_wcApply", privilege=INTERNAL, role=Role.ANY, value=Type.COLLECTION,
    parameters=(
        SCHEMA,
        Parameter("writes", Type.DOCUMENTS, required=True),
        Parameter("seen", Type.DOCUMENTS),
        HINT,
        CONSISTENCY,
    ),
    help="internal: merge mutations into rows",
)  # fmt: skip
