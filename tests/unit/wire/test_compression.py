"""OP_COMPRESSED: bounded, checked, never nested."""

from __future__ import annotations

import random
import struct
import zlib

import bson
import cramjam
import pytest

from docstore.wire import ProtocolError, decode_frame, encode_message
from docstore.wire.compression import OP_COMPRESSED, agree, wrap
from docstore.wire.framing import MAX_MESSAGE_BYTES

LARGE = encode_message(bson.encode({"x": "a" * 5000}), request_id=1)


def compressed(compressor: int, packed: bytes, size: int, opcode: int = 2013) -> bytes:
    return struct.pack("<iiiiiiB", 25 + len(packed), 1, 0, OP_COMPRESSED, opcode, size, compressor) + packed


@pytest.mark.parametrize("compressor", [1, 2, 3])
def test_a_compressible_message_gets_shorter_and_comes_back(compressor: int) -> None:
    packed = wrap(LARGE, compressor)
    assert len(packed) < len(LARGE) / 10
    message = decode_frame(packed)
    assert (message.body, message.compressor) == (decode_frame(LARGE).body, compressor)


@pytest.mark.parametrize("compressor", [1, 2, 3])
def test_a_message_that_gets_longer_is_compressed_all_the_same(compressor: int) -> None:
    frame = encode_message(bson.encode({"a": 1}), request_id=1)
    packed = wrap(frame, compressor)
    assert len(packed) > len(frame)
    message = decode_frame(packed)
    assert (message.body, message.compressor) == (decode_frame(frame).body, compressor)


def test_what_would_be_longer_than_any_message_stays_as_it_is() -> None:
    content = b"\0\0\0\0\0" + random.Random(7).randbytes(MAX_MESSAGE_BYTES - 21)
    frame = struct.pack("<iiii", MAX_MESSAGE_BYTES, 1, 0, 2013) + content
    assert wrap(frame, 1) == frame
    assert len(wrap(frame[:16] + bytes(len(content)), 1)) < len(frame)


def test_the_noop_compressor_is_understood() -> None:
    assert decode_frame(compressed(0, LARGE[16:], len(LARGE) - 16)).body == decode_frame(LARGE).body


@pytest.mark.parametrize("announced", [len(LARGE) - 17, len(LARGE) - 15, 0])
@pytest.mark.parametrize("compressor", [0, 1, 2, 3])
def test_a_wrong_announced_size_is_refused(compressor: int, announced: int) -> None:
    body = LARGE[16:]
    packed = {
        0: body, 1: bytes(cramjam.snappy.compress_raw(body)), 2: zlib.compress(body), 3:
        bytes(cramjam.zstd.compress(body)),
    }[compressor]  # fmt: skip
    with pytest.raises(ProtocolError):
        decode_frame(compressed(compressor, packed, announced))


@pytest.mark.parametrize("size", [-1, 48_000_000, 2**31 - 1])
def test_an_announced_size_beyond_any_message_is_refused_unseen(size: int) -> None:
    with pytest.raises(ProtocolError, match="longer than any message"):
        decode_frame(compressed(2, b"", size))


@pytest.mark.parametrize("compressor", [1, 2, 3, 4, 255])
def test_what_is_not_compressed_data_is_refused(compressor: int) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(compressed(compressor, b"\xff" * 40, 100))


def test_compression_is_never_nested() -> None:
    inner = wrap(LARGE, 2)
    with pytest.raises(ProtocolError, match="inside"):
        decode_frame(compressed(0, inner[16:], len(inner) - 16, OP_COMPRESSED))


def test_what_is_agreed_on_follows_the_clients_order() -> None:
    assert agree(["zstd", "lz4", "snappy"]) == ("zstd", "snappy")
