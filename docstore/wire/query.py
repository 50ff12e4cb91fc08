"""OP_QUERY and OP_REPLY, as far as drivers still send them: the first hello of a connection.

    OP_QUERY body: int32 flags, cstring full collection name, int32 skip, int32 return, document, [selector]
    OP_REPLY body: int32 flags, int64 cursor id, int32 starting from, int32 number returned, documents...

The query becomes an ordinary command document with `$db`, so that nothing above knows which opcode it came in.
"""

from __future__ import annotations

from struct import Struct, error

from docstore.wire.errors import ProtocolError
from docstore.wire.framing import HEADER, HEADER_BYTES

OP_REPLY = 1
OP_QUERY = 2004
_INT32 = Struct("<i")
_REPLY_HEAD = Struct("<iqii")
_COMMANDS = frozenset((b"hello", b"isMaster", b"ismaster"))


def decode_query(frame: bytes) -> bytes:
    """The command document of a hello on `<db>.$cmd`, with `$db` added.

    Errors: ProtocolError for anything else that OP_QUERY could do; it was removed from MongoDB in 6.0.
    """
    name_end = frame.find(b"\0", HEADER_BYTES + 4)
    if name_end < 0:
        raise ProtocolError("an OP_QUERY without a collection name")
    database, dot, collection = frame[HEADER_BYTES + 4 : name_end].partition(b".")
    at = name_end + 9
    try:
        size = int(_INT32.unpack_from(frame, at)[0])
    except error:
        raise ProtocolError("an OP_QUERY is cut off") from None
    if size < 5 or at + size > len(frame) or frame[at + size - 1] != 0:
        raise ProtocolError("the document of an OP_QUERY does not fit its message")
    document = frame[at : at + size]
    first = document[5 : document.find(b"\0", 5)] if size > 6 else b""
    if collection != b"$cmd" or not dot or first not in _COMMANDS:
        raise ProtocolError("OP_QUERY is served only for hello and isMaster; use a driver of MongoDB 3.6 or later")
    tail = b"\x02$db\0" + _INT32.pack(len(database) + 1) + database + b"\0"
    return _INT32.pack(size + len(tail)) + document[4:-1] + tail + b"\0"


def decode_reply(frame: bytes) -> bytes:
    """The first document of an OP_REPLY."""
    at = HEADER_BYTES + _REPLY_HEAD.size
    try:
        size = int(_INT32.unpack_from(frame, at)[0])
    except error:
        raise ProtocolError("an OP_REPLY is cut off") from None
    if size < 5 or at + size > len(frame):
        raise ProtocolError("the document of an OP_REPLY does not fit its message")
    return frame[at : at + size]


def encode_reply(document: bytes, *, request_id: int, response_to: int) -> bytes:
    """An OP_REPLY frame with one document."""
    head = HEADER.pack(HEADER_BYTES + _REPLY_HEAD.size + len(document), request_id, response_to, OP_REPLY)
    return head + _REPLY_HEAD.pack(8, 0, 0, 1) + document
