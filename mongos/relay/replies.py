"""A shard's reply as bytes: is it a success, and where do the command's own fields end.

A shard's node appends `ok: 1`, the cluster time and the operation time to the fields of every successful reply, in
one fixed form. No error begins like a reply of the command.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.commands.gossip import encode_times

_OK = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f"
_TAIL = _OK + encode_times(0, 0).fields
_BEFORE_TIME = _TAIL[: _TAIL.index(b"\x11clusterTime\0") + len(b"\x11clusterTime\0")]
_TIME_AT = len(_BEFORE_TIME)
_NAME = b"\x11operationTime\0"
_NAME_AT = _TAIL.index(_NAME)
CURSOR = b"\x03cursor\0"
"""The first bytes of replies with a cursor."""


class Success(NamedTuple):
    """The reply has the command's own fields up to `end`. `cluster_time`: packed."""

    end: int
    cluster_time: int


def success(reply: bytes, begins: bytes) -> Success | None:
    """Return the success; None if the reply must be decoded field by field."""
    end = len(reply) - len(_TAIL) - 1
    if not (
        reply.startswith(begins, 4) and reply.startswith(_BEFORE_TIME, end) and reply.startswith(_NAME, end + _NAME_AT)
    ):
        return None
    at = end + _TIME_AT
    return Success(end, int.from_bytes(reply[at : at + 8], "little"))


def own_fields(reply: bytes, end: int) -> bytes:
    """Return the document of a reply's own fields, which end at `end`."""
    return b"".join(((end + 1).to_bytes(4, "little"), memoryview(reply)[4:end], b"\0"))
