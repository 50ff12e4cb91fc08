"""The `mapReduce` command as nodes and routers share it: its parameters, its functions, where its output goes.

Between router and shard the command has an internal form: `shardedFirstPass: true`, sent with `out: {inline: 1}`. The
shard then leaves out finalize and answers `{results: [{_id, value}, ...], counts, timeMillis}` with the results sorted
by `_id` in MongoDB's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import elements
from docstore.bson.namespace import check_collection_name, check_database_name
from docstore.bson.walk import ARRAY, OBJECT, STRING
from docstore.commands.arguments import Arguments
from docstore.commands.declaration import Parameter, Type
from docstore.commands.values import text_of, truth_of
from docstore.errors import Code, CommandError
from docstore.js.job import Counts, Limits, MapReduceJob

NOTHING = bson.encode({})
PARAMETERS = (
    Parameter("map", Type.ANY, required=True),
    Parameter("reduce", Type.ANY, required=True),
    Parameter("finalize", Type.ANY),
    Parameter("out", Type.ANY, required=True),
    Parameter("query", Type.OBJECT, default=NOTHING),
    Parameter("sort", Type.OBJECT, default=NOTHING),
    Parameter("limit", Type.INT, default=0, minimum=0),
    Parameter("scope", Type.OBJECT),
    Parameter("verbose", Type.SAFE_BOOL, default=True),
    Parameter("jsMode", Type.SAFE_BOOL, default=False),
    Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False),
    Parameter("collation", Type.OBJECT, unsupported="collation is not supported yet"),
    Parameter("shardedFirstPass", Type.BOOL, default=False, internal=True),
)
_FUNCTIONS = frozenset((STRING, 0x0D, 0x0F))
_MODES = ("replace", "merge", "reduce", "normal", "inline")


class Mode(Enum):
    """What becomes of the results."""

    INLINE = "inline"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Output:
    """`database` and `collection` are empty for inline output."""

    mode: Mode
    database: str = ""
    collection: str = ""

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    def named(self, own_database: str) -> Any:
        """As the reply's `result` names it: with its database when that was another."""
        if self.database == own_database:
            return self.collection
        return {"db": self.database, "collection": self.collection}


def output_of(args: Arguments, database: str) -> Output:
    """The `out` of a command: a collection's name, `{replace: name, [db]}` or `{inline: 1}`; `normal` is an old name of
    replace. Errors: those of the real server for wrong forms; NotImplemented for merge and reduce."""
    code, data = args["out"]
    if code == STRING:
        check_collection_name(database, text_of(data))
        return Output(Mode.REPLACE, database, text_of(data))
    if code != OBJECT:
        what = "array" if code == ARRAY else "value"
        raise CommandError(13606, f"'out' has to be a string or an object, not this {what}")
    fields = {name: (kind, value) for name, kind, value in elements(data)}
    modes = [name for name in fields if name in _MODES]
    if len(modes) != 1:
        raise CommandError(Code.BadValue, "'out' needs exactly one of replace, merge, reduce and inline")
    mode = modes[0]
    _check_options(fields, mode)
    if mode == "inline":
        return Output(Mode.INLINE)
    if mode in ("merge", "reduce"):
        raise CommandError(Code.NotImplemented, f"out mode {mode} is not supported yet: use replace or inline")
    kind, value = fields[mode]
    if kind != STRING:
        raise CommandError(Code.TypeMismatch, f"the collection of 'out.{mode}' must be a string")
    if "db" in fields:
        database = text_of(fields["db"][1])
        check_database_name(database)
    check_collection_name(database, text_of(value))
    return Output(Mode.REPLACE, database, text_of(value))


def _check_options(fields: dict[str, tuple[int, bytes]], mode: str) -> None:
    unknown = set(fields) - {mode, "db", "sharded", "nonAtomic"}
    if unknown:
        raise CommandError(40415, f"BSON field 'out.{sorted(unknown)[0]}' is an unknown field.")
    for name in ("sharded", "nonAtomic"):
        if name in fields and truth_of(*fields[name]):
            raise CommandError(Code.NotImplemented, f"out.{name} is not supported: a collection is replaced whole")
    if "db" in fields and fields["db"][0] != STRING:
        raise CommandError(Code.TypeMismatch, "'out.db' must be a string")


def job_of(args: Arguments, seconds: float | None) -> MapReduceJob:
    """The user's functions; `seconds`: how long they may take. Errors: TypeMismatch for what is no function."""
    for name in ("map", "reduce", "finalize"):
        if name in args and args[name][0] not in _FUNCTIONS:
            raise CommandError(Code.TypeMismatch, f"'{name}' must be of string or code type")
    finalize = args["finalize"] if "finalize" in args and not args["shardedFirstPass"] else None
    return MapReduceJob(
        map=args["map"],
        reduce=args["reduce"],
        finalize=finalize,
        scope=args["scope"],
        limits=Limits(seconds=seconds),
    )


def counts_document(counts: Counts) -> dict[str, Any]:
    """`counts` as replies carry it: longs, in the order of 2012."""
    return {
        "input": Int64(counts.input),
        "emit": Int64(counts.emit),
        "reduce": Int64(counts.reduce),
        "output": Int64(counts.output),
    }
