"""Parameters that only routers add to write commands for shards, besides the shard version.

* `statementCounts: true`: the reply has `counts`, the matched documents per statement in order, and for updates
  `modifiedCounts`.
* `within: [{min: <bytes>, max: <bytes>}, ...]`: one multi-document statement, restricted to the shard keys in [min,
  max). The rest of its documents on this shard is done.
* `runtimeConstants`: the time of the statement (`docstore.node.read.statement_time`).
"""

from __future__ import annotations

from docstore.bson import get_field
from docstore.bson.walk import BINARY
from docstore.commands.arguments import Arguments
from docstore.commands.declaration import Exceptional, Parameter, Type
from docstore.errors import Code, CommandError
from docstore.node.read.statement_time import PARAMETER as STATEMENT_TIME
from docstore.sharding.targeting import KeyRanges

OF_ROUTERS = Exceptional(
    "only a router asks a shard for a part of a statement",
    Parameter("statementCounts", Type.BOOL, default=False, internal=True),
    Parameter("within", Type.DOCUMENTS, default=(), internal=True),
    STATEMENT_TIME,
)


def within_of(arguments: Arguments) -> KeyRanges | None:
    """Return the encoded key ranges of `within`; None: all that the shard owns."""
    if not arguments["within"]:
        return None
    return [(_key(raw, "min"), _key(raw, "max")) for raw in arguments["within"]]


def _key(raw: bytes, name: str) -> bytes:
    value = get_field(raw, name)
    if value is None or value[0] != BINARY:
        raise CommandError(Code.BadValue, "a range of shard keys has two ends")
    return value[1][5:]
