"""The legacy opcodes OP_QUERY, OP_GET_MORE, OP_KILL_CURSORS, OP_INSERT, OP_UPDATE, OP_DELETE, and their OP_REPLY.

    OP_UPDATE   int32 0, cstring namespace, int32 flags, document selector, document update
    OP_INSERT   int32 flags, cstring namespace, documents...
    OP_QUERY    int32 flags, cstring namespace, int32 skip, int32 return, document query, [document fields] OP_GET_MORE
    int32 0, cstring namespace, int32 return, int64 cursor id
    OP_DELETE   int32 0, cstring namespace, int32 flags, document selector
    OP_KILL_CURSORS int32 0, int32 count, int64 cursor ids...
    OP_REPLY    int32 flags, int64 cursor id, int32 starting from, int32 number returned, documents...

An operation has exactly the documents of its opcode, delimited but not parsed. `docstore.commands.legacy.opcodes`
interprets it.
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

from docstore.wire.errors import ProtocolError
from docstore.wire.framing import HEADER, HEADER_BYTES

OP_REPLY = 1
OP_UPDATE = 2001
OP_INSERT = 2002
OP_QUERY = 2004
OP_GET_MORE = 2005
OP_DELETE = 2006
OP_KILL_CURSORS = 2007

WRITES = frozenset((OP_UPDATE, OP_INSERT, OP_DELETE))
"""Opcodes without a reply."""

CURSOR_NOT_FOUND = 1
QUERY_FAILURE = 2
AWAIT_CAPABLE = 8

_INT32 = Struct("<i")
_INT64 = Struct("<q")
_REPLY_HEAD = Struct("<iqii")


class Operation(NamedTuple):
    """One operation of a legacy opcode. `flags`: of the opcode; `skip`, `number`: of a query; `ids`: of cursors."""

    opcode: int
    namespace: str = ""
    flags: int = 0
    documents: tuple[bytes, ...] = ()
    skip: int = 0
    number: int = 0
    ids: tuple[int, ...] = ()


def decode_operation(frame: bytes, opcode: int) -> Operation | None:
    """Decode the operation of a whole frame; None for another opcode. Errors: ProtocolError."""
    decode = _DECODERS.get(opcode)
    if decode is None:
        return None
    try:
        return decode(frame)
    except error:
        raise ProtocolError(f"a message of opcode {opcode} is cut off") from None


def _query(frame: bytes) -> Operation:
    flags = _int32(frame, HEADER_BYTES)
    namespace, at = _namespace(frame, HEADER_BYTES + 4)
    documents = _documents(frame, at + 8)
    if not 1 <= len(documents) <= 2:
        raise ProtocolError("an OP_QUERY has a query and perhaps fields")
    return Operation(OP_QUERY, namespace, flags, documents, _int32(frame, at), _int32(frame, at + 4))


def _insert(frame: bytes) -> Operation:
    namespace, at = _namespace(frame, HEADER_BYTES + 4)
    documents = _documents(frame, at)
    if not documents:
        raise ProtocolError("an OP_INSERT without documents")
    return Operation(OP_INSERT, namespace, _int32(frame, HEADER_BYTES), documents)


def _update(frame: bytes) -> Operation:
    return _selecting(frame, OP_UPDATE, 2)


def _delete(frame: bytes) -> Operation:
    return _selecting(frame, OP_DELETE, 1)


def _selecting(frame: bytes, opcode: int, count: int) -> Operation:
    namespace, at = _namespace(frame, HEADER_BYTES + 4)
    documents = _documents(frame, at + 4)
    if len(documents) != count:
        raise ProtocolError(f"an update has two documents and a delete one, not {len(documents)}")
    return Operation(opcode, namespace, _int32(frame, at), documents)


def _get_more(frame: bytes) -> Operation:
    namespace, at = _namespace(frame, HEADER_BYTES + 4)
    cursor_id = int(_INT64.unpack_from(frame, at + 4)[0])
    return Operation(OP_GET_MORE, namespace, number=_int32(frame, at), ids=(cursor_id,))


def _kill_cursors(frame: bytes) -> Operation:
    count = _int32(frame, HEADER_BYTES + 4)
    at = HEADER_BYTES + 8
    if count < 0 or at + 8 * count != len(frame):
        raise ProtocolError(f"an OP_KILL_CURSORS does not hold {count} cursor ids")
    return Operation(OP_KILL_CURSORS, ids=tuple(values[0] for values in _INT64.iter_unpack(frame[at:])))


_DECODERS = {
    OP_QUERY: _query,
    OP_INSERT: _insert,
    OP_UPDATE: _update,
    OP_DELETE: _delete,
    OP_GET_MORE: _get_more,
    OP_KILL_CURSORS: _kill_cursors,
}


def _int32(frame: bytes, at: int) -> int:
    return int(_INT32.unpack_from(frame, at)[0])


def _namespace(frame: bytes, at: int) -> tuple[str, int]:
    """Return (cstring, offset after it)."""
    end = frame.find(b"\0", at)
    if end < 0:
        raise ProtocolError("a namespace is cut off")
    try:
        namespace = frame[at:end].decode()
    except UnicodeDecodeError:
        raise ProtocolError("a namespace is not UTF-8") from None
    if not all(namespace.partition(".")):
        raise ProtocolError(f"'{namespace}' is no namespace")
    return namespace, end + 1


def _documents(frame: bytes, at: int) -> tuple[bytes, ...]:
    documents = []
    while at < len(frame):
        size = _int32(frame, at)
        end = at + size
        if size < 5 or end > len(frame) or frame[end - 1] != 0:
            raise ProtocolError(f"a document of {size} bytes does not fit its message")
        documents.append(frame[at:end])
        at = end
    return tuple(documents)


def decode_reply(frame: bytes) -> bytes:
    """Return the first document of an OP_REPLY."""
    at = HEADER_BYTES + _REPLY_HEAD.size
    try:
        size = int(_INT32.unpack_from(frame, at)[0])
    except error:
        raise ProtocolError("an OP_REPLY is cut off") from None
    if size < 5 or at + size > len(frame):
        raise ProtocolError("the document of an OP_REPLY does not fit its message")
    return frame[at : at + size]


def reply_body(documents: list[bytes], *, cursor_id: int = 0, start: int = 0, flags: int = AWAIT_CAPABLE) -> bytes:
    """Return the body of an OP_REPLY, after its header."""
    return _REPLY_HEAD.pack(flags, cursor_id, start, len(documents)) + b"".join(documents)


def reply_head(body_length: int, *, request_id: int, response_to: int) -> bytes:
    """Return the header of an OP_REPLY with a `reply_body` of that length."""
    return HEADER.pack(HEADER_BYTES + body_length, request_id, response_to, OP_REPLY)
