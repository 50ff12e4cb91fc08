"""A shard's reply as bytes: is it a success, and where do the command's own fields end.

A shard's node appends `ok: 1`, the cluster time and the operation time to the fields of every successful reply, in
one fixed form. No error begins like a reply of the command.
"""

from __future__ import annotations

from docstore.commands.gossip import encode_times

_OK = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f"
_TAIL = _OK + encode_times(0, 0).fields
_BEFORE_TIME = _TAIL[: _TAIL.index(b"\x11clusterTime\0") + len(b"\x11clusterTime\0")]
_NAME = b"\x11operationTime\0"
_NAME_AT = _TAIL.index(_NAME)
CURSOR = b"\x03cursor\0"
"""The first bytes of replies with a cursor."""


def end_of_own_fields(reply: bytes, begins: bytes) -> int:
    """Return where the command's own fields end in a success; 0 if the reply must be decoded field by field."""
    end = len(reply) - len(_TAIL) - 1
    if reply.startswith(begins, 4) and reply.startswith(_BEFORE_TIME, end) and reply.startswith(_NAME, end + _NAME_AT):
        return end
    return 0


def own_fields(reply: bytes, end: int) -> bytes:
    """Return the document of a reply's own fields, which end at `end`."""
    return b"".join(((end + 1).to_bytes(4, "little"), memoryview(reply)[4:end], b"\0"))
