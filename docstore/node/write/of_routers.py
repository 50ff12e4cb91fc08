"""What routers say of a write command to a shard, besides the version that they routed it by.

statementCounts: true            the reply has `counts`: the documents that each statement concerned, in order, and of
                                 updates `modifiedCounts`
within: [{min: <bytes>, max: <bytes>}, ...]   one statement over many documents, and the shard keys in
                                 [min, max) that it is about here: a part of its documents has been seen to
"""

from __future__ import annotations

from docstore.bson import get_field
from docstore.bson.walk import BINARY
from docstore.commands.arguments import Arguments
from docstore.commands.declaration import Exceptional, Parameter, Type
from docstore.errors import Code, CommandError
from docstore.sharding.targeting import KeyRanges

OF_ROUTERS = Exceptional(
    "only a router asks a shard for a part of a statement",
    Parameter("statementCounts", Type.BOOL, default=False, internal=True),
    Parameter("within", Type.DOCUMENTS, default=(), internal=True),
)


def within_of(arguments: Arguments) -> KeyRanges | None:
    """The encoded keys of `within`; None where all that the shard owns is meant."""
    if not arguments["within"]:
        return None
    return [(_key(raw, "min"), _key(raw, "max")) for raw in arguments["within"]]


def _key(raw: bytes, name: str) -> bytes:
    found = get_field(raw, name)
    if found is None or found[0] != BINARY:
        raise CommandError(Code.BadValue, "a range of shard keys has two ends")
    return found[1][5:]
