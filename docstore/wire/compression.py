"""OP_COMPRESSED: the compressed body of another message.

    body: int32 original opcode, int32 uncompressed size of the body, uint8 compressor id, bytes

The announced size is checked against the message limit before decompression, and against the result afterwards. A
decompression never produces more bytes than announced.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from struct import Struct

import cramjam

from docstore.wire.errors import ProtocolError
from docstore.wire.framing import HEADER, HEADER_BYTES, MAX_MESSAGE_BYTES

OP_COMPRESSED = 2012
_HEAD = Struct("<iiB")
_CONTENT_AT = HEADER_BYTES + _HEAD.size

COMPRESSOR_IDS = {"snappy": 1, "zlib": 2, "zstd": 3}
"""The supported compressors, by their names in hello."""
_NOOP = 0
NEVER_COMPRESSED = frozenset(
    (
        "hello", "isMaster", "ismaster", "saslStart", "saslContinue", "getnonce", "authenticate", "createUser",
        "updateUser", "copydbSaslStart", "copydbgetnonce", "copydb",
    )
)  # fmt: skip
"""Commands never compressed, nor their replies: they precede the negotiation or contain secrets."""


def agree(offered: Iterable[str]) -> tuple[str, ...]:
    """Return the offered compressors that we support, in the client's order."""
    return tuple(name for name in offered if name in COMPRESSOR_IDS)


def wrap(frame: bytes, compressor: int) -> bytes:
    """Return the frame as OP_COMPRESSED, even if that is longer; the frame itself if it would exceed the message
    limit.
    """
    _, request_id, response_to, opcode = HEADER.unpack_from(frame)
    body = memoryview(frame)[HEADER_BYTES:]
    packed = _compress(compressor, body)
    if _CONTENT_AT + len(packed) > MAX_MESSAGE_BYTES:
        return frame
    head = HEADER.pack(_CONTENT_AT + len(packed), request_id, response_to, OP_COMPRESSED)
    return b"".join((head, _HEAD.pack(opcode, len(body), compressor), packed))


def unwrap(frame: bytes) -> tuple[bytes, int]:
    """Return (inner frame, compressor id). Errors: ProtocolError."""
    if len(frame) < _CONTENT_AT:
        raise ProtocolError("an OP_COMPRESSED is cut off")
    _, request_id, response_to, _ = HEADER.unpack_from(frame)
    opcode, size, compressor = _HEAD.unpack_from(frame, HEADER_BYTES)
    if not 0 <= size <= MAX_MESSAGE_BYTES - HEADER_BYTES:
        raise ProtocolError(f"a compressed message of {size} bytes is longer than any message may be")
    if opcode == OP_COMPRESSED:
        raise ProtocolError("a compressed message inside a compressed message")
    body = _decompress(compressor, frame[_CONTENT_AT:], size)
    if len(body) != size:
        raise ProtocolError("a compressed message does not have the size that it announced")
    return b"".join((HEADER.pack(HEADER_BYTES + size, request_id, response_to, opcode), body)), compressor


def claimed_bytes(frame: bytes) -> int:
    """Return the size that a compressed frame announces; the frame's own if it announces none."""
    return int(_HEAD.unpack_from(frame, HEADER_BYTES)[1]) if len(frame) >= _CONTENT_AT else len(frame)


def _compress(compressor: int, body: memoryview) -> bytes:
    if compressor == 1:
        return bytes(cramjam.snappy.compress_raw(body))
    if compressor == 2:
        return zlib.compress(body, 6)
    assert compressor == 3, "only what was agreed on is used"
    return bytes(cramjam.zstd.compress(body, 3))


def _decompress(compressor: int, packed: bytes, size: int) -> bytes | memoryview:
    if compressor == _NOOP:
        return packed
    try:
        if compressor == 1:
            if cramjam.snappy.decompress_raw_len(packed) != size:
                raise ProtocolError("a compressed message does not have the size that it announced")
            return bytes(cramjam.snappy.decompress_raw(packed, size))
        if compressor == 2:
            return _inflate(packed, size)
        if compressor == 3:
            # A buffer of the announced size bounds the expansion of a small message.
            buffer = bytearray(size)
            return memoryview(buffer)[: cramjam.zstd.decompress_into(packed, buffer)]
    except (zlib.error, cramjam.DecompressionError) as reason:
        raise ProtocolError(f"a compressed message cannot be decompressed: {reason}") from None
    raise ProtocolError(f"compressor {compressor} is not known")


def _inflate(packed: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    # One byte more than announced, to detect a longer stream.
    body = inflater.decompress(packed, size + 1)
    if not inflater.eof:
        raise ProtocolError("a zlib stream is cut off or longer than announced")
    return body
