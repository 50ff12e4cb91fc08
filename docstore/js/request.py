"""The mapReduce command's own fields as typed values, the same for a node and for a router.

Wrong forms are refused with the reference's codes. Where the reference has grown stricter than the server of 2012 we
accept both: functions may be code with scope, and `normal` is an old name of `replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from docstore.bson import Value, elements, to_python
from docstore.bson.namespace import check_collection_name, check_database_name, split_namespace
from docstore.errors import Code, CommandError
from docstore.js.job import Limits, MapReduceJob
from docstore.js.session import CODE, CODE_WITH_SCOPE, STRING

_DOUBLE, _DOCUMENT, _BOOL, _NULL, _INT32, _INT64, _DECIMAL = 1, 3, 8, 10, 16, 18, 19
_NUMBERS = (_DOUBLE, _INT32, _INT64, _DECIMAL)


class OutputMode(Enum):
    """Where results go, and how they meet what is there already."""

    INLINE = "inline"
    REPLACE = "replace"
    MERGE = "merge"
    REDUCE = "reduce"


_MODES = {mode.value: mode for mode in OutputMode if mode is not OutputMode.INLINE} | {"normal": OutputMode.REPLACE}


@dataclass(frozen=True, slots=True)
class Output:
    """`target` is a namespace, None for inline output. `sharded` says that the caller expects a sharded target."""

    mode: OutputMode
    target: str | None = None
    sharded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReduceRequest:
    """A parsed command; `query` and `sort` are raw documents, `limit` a number of input documents."""

    source: str
    job: MapReduceJob
    output: Output
    query: bytes | None = None
    sort: bytes | None = None
    limit: int | None = None

    def reply_target(self) -> str | dict[str, str] | None:
        """The reply's `result` field: a collection name, or with its database where that is another one."""
        target = self.output.target
        if target is None:
            return None
        database, collection = split_namespace(target)
        if database == split_namespace(self.source)[0]:
            return collection
        return {"db": database, "collection": collection}


def parse_map_reduce(source: str, raw: bytes, limits: Limits | None = None) -> MapReduceRequest:
    """Parse the command's raw body; `source` is the namespace to map. Fields that every command has are left to the
    dispatcher.
    """
    fields = {name: (kind, value) for name, kind, value in elements(raw) if kind != _NULL or name == "out"}
    limits = limits or Limits()
    if "maxTimeMS" in fields:
        milliseconds = to_python(fields["maxTimeMS"])
        assert isinstance(milliseconds, (int, float)), "maxTimeMS is checked by the dispatcher"
        limits = replace(limits, seconds=milliseconds / 1000 or None)
    job = MapReduceJob(
        map=_function(fields, "map"),
        reduce=_function(fields, "reduce"),
        finalize=_function(fields, "finalize") if "finalize" in fields else None,
        scope=_scope(fields.get("scope")),
        limits=limits,
    )
    return MapReduceRequest(
        source=source,
        job=job,
        output=_output(split_namespace(source)[0], _required(fields, "out")),
        query=_document(fields.get("query"), "query"),
        sort=_document(fields.get("sort"), "sort"),
        limit=_limit(fields.get("limit")),
    )


def _required(fields: dict[str, Value], name: str) -> Value:
    if name not in fields:
        raise CommandError(40414, f"BSON field 'mapReduce.{name}' is missing but a required field")
    return fields[name]


def _function(fields: dict[str, Value], name: str) -> Value:
    value = _required(fields, name)
    if value[0] not in (STRING, CODE, CODE_WITH_SCOPE):
        raise CommandError(Code.BadValue, f"'{name}' must be of string or code type")
    return value


def _scope(value: Value | None) -> bytes | None:
    if value is None:
        return None
    if value[0] != _DOCUMENT:
        raise CommandError(Code.BadValue, "'scope' must be an object")
    return value[1]


def _document(value: Value | None, name: str) -> bytes | None:
    if value is None:
        return None
    if value[0] != _DOCUMENT:
        raise CommandError(Code.TypeMismatch, f"BSON field 'mapReduce.{name}' must be an object")
    return value[1]


def _limit(value: Value | None) -> int | None:
    if value is None:
        return None
    if value[0] not in _NUMBERS:
        raise CommandError(Code.TypeMismatch, "BSON field 'mapReduce.limit' must be a number")
    limit = int(str(to_python(value)).split(".")[0])
    if limit <= 0:
        raise CommandError(15958, "The limit specified to mapReduce must be positive")
    return limit


def _output(database: str, value: Value) -> Output:
    kind, raw = value
    if kind == STRING:
        return Output(OutputMode.REPLACE, _target(database, str(to_python(value))))
    if kind != _DOCUMENT:
        raise CommandError(Code.BadValue, "'out' must be either a string or an object")
    fields = {name: (kind, part) for name, kind, part in elements(raw)}
    if "inline" in fields:
        return _inline(fields)
    modes = [name for name in fields if name in _MODES]
    if not modes:
        raise CommandError(Code.BadValue, "'out' requires 'replace', 'merge' or 'reduce'")
    if len(modes) > 1 or fields.keys() - {modes[0], "db", "sharded", "nonAtomic"}:
        raise CommandError(
            Code.BadValue, "'out' takes one output mode with a collection name, and optionally 'db' and 'sharded'"
        )
    name = fields[modes[0]]
    if name[0] != STRING:
        raise CommandError(Code.BadValue, f"'{modes[0]}' supports only string consisting of output collection name")
    if "db" in fields:
        if fields["db"][0] != STRING:
            raise CommandError(Code.BadValue, "'db' supports only string consisting of output database name")
        database = str(to_python(fields["db"]))
    return Output(_MODES[modes[0]], _target(database, str(to_python(name))), _is_true(fields.get("sharded")))


def _inline(fields: dict[str, Value]) -> Output:
    if len(fields) > 1:
        raise CommandError(Code.InvalidOptions, "'inline' must be specified alone")
    kind, _ = fields["inline"]
    if kind not in _NUMBERS or to_python(fields["inline"]) != 1:
        raise CommandError(Code.BadValue, "'inline' takes only numeric '1'")
    return Output(OutputMode.INLINE)


def _is_true(value: Value | None) -> bool:
    return value is not None and value[0] == _BOOL and value[1] == b"\x01"


def _target(database: str, collection: str) -> str:
    check_database_name(database)
    if collection.startswith("system."):
        raise CommandError(17385, f"Can't output mapReduce results to special collection {collection}")
    return check_collection_name(database, collection)
