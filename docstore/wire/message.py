# cython: annotation_typing=False
"""OP_MSG, and the common message type of all opcodes.

    OP_MSG body: uint32 flags, sections..., [uint32 CRC-32C of everything before it]
    section kind 0: byte 0, one document        kind 1: byte 1, int32 size, cstring name, documents...

- A message has exactly one kind 0 section, and no two sequences of the same name.
- Unknown flags among bits 0 to 15 are refused; those among bits 16 to 31 are ignored.
- Documents are delimited, not parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import NamedTuple

from docstore.bson.build import consecutive_count, consecutive_documents
from docstore.errors import CommandError
from docstore.wire.checksum import crc32c
from docstore.wire.compression import OP_COMPRESSED, unwrap
from docstore.wire.errors import ProtocolError
from docstore.wire.framing import HEADER, HEADER_BYTES, MAX_MESSAGE_BYTES
from docstore.wire.query import OP_REPLY, Operation, decode_operation, decode_reply

OP_MSG = 2013
CHECKSUM_PRESENT = 1 << 0
MORE_TO_COME = 1 << 1
EXHAUST_ALLOWED = 1 << 16
_REQUIRED_BITS = 0xFFFF
_SPECIAL_BITS = _REQUIRED_BITS & ~MORE_TO_COME
_KNOWN_REQUIRED_BITS = CHECKSUM_PRESENT | MORE_TO_COME
_HEAD = Struct("<iiiiIB")
_WHOLE_HEAD = Struct("<iiiiIBi")
_FLAGS = Struct("<I")
_INT32 = Struct("<i")
_BODY_AT = _HEAD.size
_SHORTEST_DOCUMENT = 5
_SHORTEST_MSG = _BODY_AT + 5
MAX_BODY_BYTES = MAX_MESSAGE_BYTES - _BODY_AT
"""The longest document that fits into an OP_MSG by itself."""
_NO_SEQUENCES: Mapping[str, list[bytes]] = {}


MAX_SEQUENCE = 1_000_000
"""Maximum documents of a decoded sequence: more than any command accepts, but far less memory than a message of empty
documents could take.
"""


class Overfull(list[bytes]):
    """The placeholder of a sequence with too many documents: empty, with their number."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.total = count


class Message(NamedTuple):
    """A message of any opcode.

    `flags`: the OP_MSG flags. `opcode`: the one received, or the one inside a compressed message; a reply uses the
    matching one. `compressor`: the id of the compressor used; None if uncompressed. `operation`: the content of a
    legacy opcode; its `body` is empty.
    """

    request_id: int
    response_to: int
    body: bytes
    sequences: Mapping[str, list[bytes]] = _NO_SEQUENCES
    flags: int = 0
    opcode: int = OP_MSG
    compressor: int | None = None
    operation: Operation | None = None

    @property
    def more_to_come(self) -> bool:
        """In a request: send no reply. In a reply: another one follows."""
        return bool(self.flags & MORE_TO_COME)


def decode_frame(frame: bytes) -> Message:
    """Decode one whole frame. Errors: ProtocolError."""
    size = len(frame)
    if size >= _SHORTEST_MSG:
        _, request_id, response_to, opcode, flags, kind, length = _WHOLE_HEAD.unpack_from(frame)
        # A single kind 0 section is the most common message; one more kind 1 section the next.
        if opcode == OP_MSG and not flags & _SPECIAL_BITS and not kind and length >= 5:
            end = _BODY_AT + length
            if end == size and not frame[-1]:
                return Message(request_id, response_to, frame[_BODY_AT:], _NO_SEQUENCES, flags)
            remaining = size - end - 1
            if (
                remaining > 4
                and frame[end] == 1
                and not frame[end - 1]
                and _INT32.unpack_from(frame, end + 1)[0] == remaining
            ):
                name, documents = _sequence(frame, end + 5, size)
                return Message(request_id, response_to, frame[_BODY_AT:end], {name: documents}, flags)
    elif size < HEADER_BYTES:
        raise ProtocolError("a frame shorter than its header")
    return _decode(frame)


def _decode(frame: bytes) -> Message:
    _, request_id, response_to, opcode = HEADER.unpack_from(frame)
    if opcode == OP_MSG:
        return _decode_msg(frame, request_id, response_to)
    if opcode == OP_COMPRESSED:
        inner, compressor = unwrap(frame)
        return decode_frame(inner)._replace(compressor=compressor)
    if opcode == OP_REPLY:
        return Message(request_id, response_to, decode_reply(frame), opcode=OP_REPLY)
    operation = decode_operation(frame, opcode)
    if operation is not None:
        return Message(request_id, response_to, b"", opcode=opcode, operation=operation)
    raise ProtocolError(f"opcode {opcode} is not supported")


def _decode_msg(frame: bytes, request_id: int, response_to: int) -> Message:
    end = len(frame)
    if end < _SHORTEST_MSG:
        raise ProtocolError("an OP_MSG without a document")
    flags = int(_FLAGS.unpack_from(frame, HEADER_BYTES)[0])
    if flags:
        if flags & _REQUIRED_BITS & ~_KNOWN_REQUIRED_BITS:
            raise ProtocolError(f"unknown required flag bits in {flags:#x}")
        if flags & CHECKSUM_PRESENT:
            end -= 4
            _verify(frame, end)
    body, sequences = _sections(frame, end)
    return Message(request_id, response_to, body, sequences, flags)


def _verify(frame: bytes, end: int) -> None:
    if end < _BODY_AT + 5 or _FLAGS.unpack_from(frame, end)[0] != crc32c(memoryview(frame)[:end]):
        raise ProtocolError("the checksum of an OP_MSG is wrong")


def _sections(frame: bytes, end: int) -> tuple[bytes, dict[str, list[bytes]]]:
    body: bytes | None = None
    sequences: dict[str, list[bytes]] = {}
    at = HEADER_BYTES + 4
    while at < end:
        kind = frame[at]
        at += 1
        if kind == 0:
            if body is not None:
                raise ProtocolError("two body sections in one OP_MSG")
            body = _document(frame, at, end)
            at += len(body)
        elif kind == 1:
            size = _size(frame, at, end)
            name, documents = _sequence(frame, at + 4, at + size)
            if name in sequences:
                raise ProtocolError(f"two document sequences named '{name}'")
            sequences[name] = documents
            at += size
        else:
            raise ProtocolError(f"section kind {kind} is not known")
    if body is None:
        raise ProtocolError("an OP_MSG without a body section")
    return body, sequences


def _size(frame: bytes, at: int, end: int) -> int:
    """Return a length prefix, which includes itself and must fit before `end`."""
    try:
        size = int(_INT32.unpack_from(frame, at)[0])
    except error:
        raise ProtocolError("a section is cut off") from None
    if size < 5 or at + size > end:
        raise ProtocolError(f"a section or document of {size} bytes does not fit its message")
    return size


def _document(frame: bytes, at: int, end: int) -> bytes:
    size = _size(frame, at, end)
    if frame[at + size - 1] != 0:
        raise ProtocolError("a document does not end where its length says")
    return frame[at : at + size]


def _sequence(frame: bytes, at: int, end: int) -> tuple[str, list[bytes]]:
    name_end = frame.find(b"\0", at, end)
    if name_end < 0:
        raise ProtocolError("a document sequence without a name")
    try:
        name = frame[at:name_end].decode()
    except UnicodeDecodeError:
        raise ProtocolError("the name of a document sequence is not UTF-8") from None
    try:
        if end - name_end > MAX_SEQUENCE * _SHORTEST_DOCUMENT:
            count = consecutive_count(frame, name_end + 1, end)
            if count > MAX_SEQUENCE:
                return name, Overfull(count)
        documents = consecutive_documents(frame, name_end + 1, end)
    except CommandError as error:
        raise ProtocolError(f"a document sequence does not hold documents: {error.message}") from None
    return name, documents


def encode_body(body: bytes, request_id: int, response_to: int, flags: int) -> bytes:
    """Return `encode_message` of one document, without its overhead."""
    return encode_head(len(body), request_id, response_to, flags) + body


def encode_head(body_length: int, request_id: int, response_to: int, flags: int) -> bytes:
    """Return the bytes before the only document of a message, with which every reply of the server begins."""
    length = _BODY_AT + body_length
    if length > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {length} bytes is longer than {MAX_MESSAGE_BYTES}")
    return _HEAD.pack(length, request_id, response_to, OP_MSG, flags, 0)


def encode_message(
    body: bytes,
    *,
    request_id: int,
    response_to: int = 0,
    flags: int = 0,
    sequences: Iterable[tuple[str, list[bytes]]] = (),
) -> bytes:
    """Return an OP_MSG frame. Errors: ProtocolError if it exceeds the message limit."""
    parts = [body]
    for name, documents in sequences:
        encoded_name = name.encode() + b"\0"
        size = 4 + len(encoded_name) + sum(map(len, documents))
        parts += (b"\1", _INT32.pack(size), encoded_name, *documents)
    length = _BODY_AT + sum(map(len, parts))
    if length > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {length} bytes is longer than {MAX_MESSAGE_BYTES}")
    head = _HEAD.pack(length, request_id, response_to, OP_MSG, flags, 0)
    return b"".join((head, *parts))
