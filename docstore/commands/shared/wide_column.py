"""What the commands of the wide-column mode take, on every executable that serves them."""

from __future__ import annotations

from docstore.commands.declaration import Parameter, Type

CONSISTENCY = Parameter("consistency", Type.STRING, default="ONE")
_KEY = Parameter("key", Type.ANY, required=True)
_SUPER_COLUMN = Parameter("superColumn", Type.ANY)
_COLUMN = Parameter("column", Type.ANY)
_TIMESTAMP = Parameter("timestamp", Type.ANY)
_READING = (
    CONSISTENCY,
    Parameter("bytesAs", Type.STRING),
    Parameter("explain", Type.SAFE_BOOL, default=False),
)
_PREDICATE = Parameter("predicate", Type.ANY)
_ADVISORY = (
    Parameter("keysCached", (Type.NUMBER, Type.STRING)),
    Parameter("rowsCached", (Type.NUMBER, Type.STRING)),
)

SPREAD = Parameter("spread", Type.BOOL, default=False, internal=True)
"""From a router: column families are spread over the shards."""

CREATE_KEYSPACE = (
    Parameter("replication", Type.OBJECT),
    Parameter("durableWrites", Type.SAFE_BOOL, default=True),
    Parameter("partitioner", Type.STRING),
    Parameter("ifNotExists", Type.SAFE_BOOL, default=False),
)
CREATE_COLUMN_FAMILY = (
    Parameter("columnType", Type.STRING),
    Parameter("compareWith", Type.STRING),
    Parameter("compareSubcolumnsWith", Type.STRING),
    Parameter("gcGraceSeconds", Type.INT),
    Parameter("defaultTtl", Type.INT),
    *_ADVISORY,
    SPREAD,
)
ALTER_COLUMN_FAMILY = (
    Parameter("gcGraceSeconds", Type.INT),
    *_ADVISORY,
    Parameter("compareWith", Type.STRING),
    Parameter("compareSubcolumnsWith", Type.STRING),
    Parameter("columnType", Type.STRING),
    Parameter("defaultTtl", Type.INT),
)
LOAD_STORAGE_CONF = (Parameter("replace", Type.SAFE_BOOL, default=False), SPREAD)
INSERT = (
    _KEY,
    _COLUMN,
    Parameter("value", Type.ANY, required=True),
    _SUPER_COLUMN,
    _TIMESTAMP,
    Parameter("ttl", Type.ANY),
    Parameter("valueType", Type.ANY),
    CONSISTENCY,
)
REMOVE = (_KEY, _SUPER_COLUMN, _COLUMN, _TIMESTAMP, CONSISTENCY)
BATCH_MUTATE = (
    Parameter("mutations", Type.DOCUMENTS, required=True),
    CONSISTENCY,
    Parameter("timestamp", Type.ANY, internal=True),
    Parameter("check", Type.BOOL, default=False, internal=True),
)
GET = (_KEY, _SUPER_COLUMN, _COLUMN, *_READING)
GET_SLICE = (_KEY, _PREDICATE, _SUPER_COLUMN, *_READING)
MULTIGET_SLICE = (Parameter("keys", Type.ARRAY, required=True), _PREDICATE, _SUPER_COLUMN, *_READING)
GET_RANGE_SLICES = (
    _PREDICATE,
    _SUPER_COLUMN,
    Parameter("range", Type.OBJECT),
    Parameter("count", Type.INT, default=100),
    Parameter("excludeEmpty", Type.SAFE_BOOL, default=False),
    Parameter("stretch", Type.OBJECT, internal=True),
    *_READING,
)
GET_COUNT = (_KEY, _SUPER_COLUMN, CONSISTENCY, Parameter("explain", Type.SAFE_BOOL, default=False))
READ_STRETCH = (
    Parameter("row", Type.ANY, required=True),
    Parameter("points", Type.ARRAY, required=True),
    Parameter("start", Type.ANY, required=True),
    Parameter("end", Type.ANY, required=True),
    Parameter("reverse", Type.BOOL, default=False),
    Parameter("limit", Type.INT, default=0),
    Parameter("head", Type.BOOL, default=False),
)
_SCHEMA = Parameter("schema", Type.ANY)
"""The digest of the definition that the sender works by (`docstore.widecolumn.model.definition_commands.digest_of`)."""

SCAN_ROWS = (
    _SCHEMA,
    Parameter("start", Type.ANY, required=True),
    Parameter("end", Type.ANY, required=True),
    Parameter("row", Type.ANY),
    Parameter("path", Type.ANY),
    Parameter("limit", Type.INT, required=True),
    Parameter("statistics", Type.BOOL, default=False),
    CONSISTENCY,
)
READ_ROW = (
    _SCHEMA,
    _KEY,
    Parameter("head", Type.BOOL, default=False),
    Parameter("start", Type.ANY, required=True),
    Parameter("end", Type.ANY, required=True),
    Parameter("reverse", Type.BOOL, default=False),
    Parameter("limit", Type.INT, required=True),
    CONSISTENCY,
)
APPLY_ROWS = (
    _SCHEMA,
    Parameter("writes", Type.DOCUMENTS, required=True),
    Parameter("seen", Type.DOCUMENTS),
    Parameter("familyId", Type.ANY),
    CONSISTENCY,
)
DEFINE = (
    Parameter("family", Type.OBJECT),
    Parameter("keyspace", Type.OBJECT),
    Parameter("create", Type.BOOL, default=False),
)
LIST_ROWS = (
    Parameter("start", Type.ANY, required=True),
    Parameter("end", Type.ANY, required=True),
    Parameter("limit", Type.INT, required=True),
)
