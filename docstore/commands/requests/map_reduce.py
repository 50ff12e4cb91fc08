"""The `mapReduce` command, for nodes and routers: its parameters, functions, and output.

Between router and shard the command has an internal form: `shardedFirstPass: true`, sent with `out: {inline: 1}`. The
shard then skips finalize and replies `{cursor, counts}`: a cursor over `{_id, value}` sorted by `_id` in collation
order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from bson.int64 import Int64

from docstore.aggregation.stages.write import (
    Merge,
    WhenMatched,
    WhenNotMatched,
    check_target_collection,
    check_target_database,
    is_internal,
)
from docstore.bson import Value, elements, get_field
from docstore.bson.walk import BOOL, EMPTY_DOCUMENT, NULL, OBJECT, STRING
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadLevel
from docstore.commands.context import Context
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.js.job import Counts, Limits, MapReduceJob
from docstore.js.stored import checked
from docstore.namespace import check_collection_name, check_database_name, split_namespace
from docstore.query.context import PLAIN
from docstore.query.value.collation import Collation
from docstore.query.value.values import NUMBERS, number_of

_FUNCTIONS = frozenset((STRING, 0x0D, 0x0F))


class Mode(Enum):
    """The output mode. For an existing key, MERGE keeps the new result, REDUCE reduces the old and the new one."""

    INLINE = "inline"
    REPLACE = "replace"
    MERGE = "merge"
    REDUCE = "reduce"


_MODES = {
    "replace": Mode.REPLACE,
    "normal": Mode.REPLACE,
    "merge": Mode.MERGE,
    "reduce": Mode.REDUCE,
    "inline": Mode.INLINE,
}


@dataclass(frozen=True, slots=True)
class Output:
    """The output target. `database` and `collection` are empty for inline output."""

    mode: Mode
    database: str = ""
    collection: str = ""
    sharded: bool = False
    """The target must already be sharded."""

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    def check_sharded(self, sharded: bool) -> None:
        """Errors: InvalidOptions if a sharded target was requested and it is not sharded."""
        if self.sharded and not sharded:
            raise CommandError(Code.InvalidOptions, "out.sharded is only for a target that is sharded already")

    def named(self, own_database: str) -> Any:
        """Return the reply's `result`: the collection, with its database if that differs."""
        if self.database == own_database:
            return self.collection
        return {"db": self.database, "collection": self.collection}


def output_of(args: Arguments, database: str) -> Output:
    """Parse the `out` of a command: a collection name, `{mode: name, [db]}` or `{inline: 1}`.

    `normal` is an old name of replace. Errors: those of the real server.
    """
    code, data = args["out"]
    if code == STRING:
        return _into(Mode.REPLACE, database, text_of(data))
    if code != OBJECT:
        raise CommandError(Code.BadValue, "'out' must be either a string or an object")
    listed = elements(data)
    fields = {name: (kind, value) for name, kind, value in listed}
    if "inline" in fields and len(listed) > 1:
        raise CommandError(Code.InvalidOptions, "inline output goes to no collection, and takes no options")
    if len(fields) < len(listed):
        raise CommandError(Code.BadValue, "'out' gives a field twice")
    modes = [name for name in fields if name in _MODES]
    if len(modes) != 1:
        raise CommandError(Code.BadValue, "'out' needs exactly one of replace, merge, reduce and inline")
    mode = modes[0]
    kind, value = fields[mode]
    _check_options(fields, mode)
    if mode == "inline":
        if kind not in NUMBERS or number_of((kind, value)) != 1:
            raise CommandError(Code.BadValue, "'out.inline' must be 1")
        return Output(Mode.INLINE)
    if kind != STRING:
        raise CommandError(Code.BadValue, f"the collection of 'out.{mode}' must be a string")
    if "db" in fields:
        database = text_of(fields["db"][1])
        check_database_name(database)
        if is_internal(database):
            raise CommandError(Code.CommandNotSupported, "cannot target internal database as output")
    return _into(_MODES[mode], database, text_of(value), sharded="sharded" in fields)


def _into(mode: Mode, database: str, collection: str, *, sharded: bool = False) -> Output:
    if "$" in collection:
        raise CommandError(Code.IllegalOperation, f"results cannot be written to {database}.{collection}")
    check_collection_name(database, collection)
    check_target_collection(collection, "Can't output mapReduce results", replaces=mode is Mode.REPLACE)
    check_target_database(database, "Can't output mapReduce results", replaces=mode is Mode.REPLACE)
    return Output(mode, database, collection, sharded)


def _check_options(fields: dict[str, tuple[int, bytes]], mode: str) -> None:
    unknown = set(fields) - {mode, "db", "sharded", "nonAtomic"}
    if unknown:
        raise CommandError(Code.BadValue, f"'out' has an unknown field {sorted(unknown)[0]}")
    for name in ("sharded", "nonAtomic"):
        if name in fields and (fields[name][0] != BOOL or fields[name][1] == b"\0"):
            raise CommandError(Code.BadValue, f"'out.{name}' can only be true")
    if "db" in fields and fields["db"][0] != STRING:
        raise CommandError(Code.BadValue, "'out.db' must be a string")


def check_read_level(context: Context) -> None:
    """Errors: InvalidOptions for a level that map-reduce does not support; afterClusterTime is allowed."""
    level = context.read_concern.level
    if level not in (ReadLevel.LOCAL, ReadLevel.AVAILABLE):
        raise CommandError(Code.InvalidOptions, f"Command mapReduce does not support readConcern level '{level.value}'")


def job_of(
    args: Arguments, limits: Limits, stored: bytes | None = None, collation: Collation | None = None
) -> MapReduceJob:
    """Return the job with the user's functions; `stored`: the stored functions of the database.

    Errors: BadValue for an invalid function or scope, 15958 for the limit, 4546000 for stored code with a scope.
    """
    if args["limit"] is not None and args["limit"] <= 0:
        raise CommandError(15958, "the limit must be positive")
    finalize, scope = _non_null(args["finalize"]), _non_null(args["scope"])
    for name, function in (("map", args["map"]), ("reduce", args["reduce"]), ("finalize", finalize)):
        if function is not None and function[0] not in _FUNCTIONS:
            raise CommandError(Code.BadValue, f"'{name}' must be of string or code type")
    if scope is not None and scope[0] != OBJECT:
        raise CommandError(Code.BadValue, "'scope' must be an object")
    return MapReduceJob(
        map=args["map"],
        reduce=args["reduce"],
        finalize=None if args.sent_values().get("shardedFirstPass") else finalize,
        scope=None if scope is None else scope[1],
        stored=None if stored is None else checked(stored),
        collation=collation,
        limits=limits,
    )


def _non_null(value: Value | None) -> Value | None:
    return None if value is None or value[0] == NULL else value


def counts_document(counts: Counts) -> dict[str, Any]:
    """Return `counts` for a reply: longs, in the order of 2012."""
    return {
        "input": Int64(counts.input),
        "emit": Int64(counts.emit),
        "reduce": Int64(counts.reduce),
        "output": Int64(counts.output),
    }


class _MergeByKey(Merge):
    """`$merge` with the semantics of map-reduce: null is an ordinary key."""

    def identity(self, document: bytes) -> list[tuple[str, Value]]:
        key = get_field(document, "_id")
        return [("_id", key)] if key is not None and key[0] == NULL else Merge.identity(self, document)


def merging(namespace: str) -> Merge:
    """Return the stage that replaces the document with each result's key."""
    database, collection = split_namespace(namespace)
    return _MergeByKey(
        raw=EMPTY_DOCUMENT, database=database, collection=collection, on=("_id",), matched=WhenMatched.REPLACE,
        not_matched=WhenNotMatched.INSERT, pipeline=(), let=(), binds_new=True, query_context=PLAIN,
    )  # fmt: skip
