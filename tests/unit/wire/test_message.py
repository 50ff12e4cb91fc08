"""OP_MSG in both kinds, its flags and its checksum; anything else is refused and never crashes the parser."""

from __future__ import annotations

import contextlib
import struct

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.wire import Message, ProtocolError, decode_frame, encode_message
from docstore.wire.compression import wrap
from docstore.wire.message import CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME, OP_MSG, encode_body
from tests.harness.frames import with_checksum

documents = st.dictionaries(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=5),
    st.integers(-(2**31), 2**31 - 1) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.booleans(),
    max_size=5,
).map(bson.encode)
sequences = st.dictionaries(st.sampled_from(["documents", "updates", "deletes"]), st.lists(documents, max_size=5))
PING = bson.encode({"ping": 1, "$db": "admin"})


def msg(payload: bytes, flags: int = 0) -> bytes:
    return struct.pack("<iiiiI", 20 + len(payload), 1, 0, OP_MSG, flags) + payload


@given(
    documents, sequences, st.integers(0, 2**31 - 1), st.sampled_from([0, MORE_TO_COME, EXHAUST_ALLOWED]), st.booleans()
)
def test_what_is_encoded_decodes_to_the_same(body, named, request_id, flags, checksum) -> None:
    frame = encode_message(body, request_id=request_id, flags=flags, sequences=named.items())
    if checksum:
        frame = with_checksum(frame)
    message = decode_frame(frame)
    assert (message.body, dict(message.sequences), message.request_id) == (body, named, request_id)
    assert message.flags & ~CHECKSUM_PRESENT == flags


@given(documents, sequences, st.sampled_from([1, 2, 3]))
def test_compression_changes_nothing_but_the_size(body, named, compressor) -> None:
    frame = encode_message(body, request_id=3, response_to=9, sequences=named.items())
    plain, packed = decode_frame(frame), decode_frame(wrap(frame, compressor))
    assert packed._replace(compressor=None) == plain


def test_a_reply_is_encoded_the_same_way_as_any_message() -> None:
    assert encode_body(PING, 5, 6, MORE_TO_COME) == encode_message(
        PING, request_id=5, response_to=6, flags=MORE_TO_COME
    )


@given(st.binary(max_size=300))
def test_random_bytes_never_crash_the_parser(noise: bytes) -> None:
    for opcode in (OP_MSG, 2012, 2004, 1, 2001):
        frame = struct.pack("<iiii", 16 + len(noise), 1, 0, opcode) + noise
        with contextlib.suppress(ProtocolError):
            assert isinstance(decode_frame(frame), Message)


@given(documents, sequences, st.data())
def test_a_flipped_or_cut_message_never_crashes_the_parser(body, named, data) -> None:
    frame = bytearray(encode_message(body, request_id=1, sequences=named.items()))
    for at in data.draw(st.lists(st.integers(12, len(frame) - 1), max_size=4)):
        frame[at] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(16, len(frame)))])
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode_frame(cut), Message)


def test_a_wrong_checksum_is_refused() -> None:
    frame = bytearray(with_checksum(encode_message(PING, request_id=1)))
    assert decode_frame(bytes(frame)).body == PING
    frame[30] ^= 1
    with pytest.raises(ProtocolError, match="checksum"):
        decode_frame(bytes(frame))


def test_unknown_required_bits_are_refused_and_optional_ones_are_not() -> None:
    with pytest.raises(ProtocolError, match="required"):
        decode_frame(msg(b"\0" + PING, 1 << 5))
    assert decode_frame(msg(b"\0" + PING, 1 << 20)).body == PING


def section(name: bytes, *parts: bytes) -> bytes:
    payload = name + b"\0" + b"".join(parts)
    return b"\1" + struct.pack("<i", 4 + len(payload)) + payload


@pytest.mark.parametrize(
    ("why", "payload"),
    [
        ("no section at all", b""),
        ("no body section", section(b"documents", PING)),
        ("two body sections", b"\0" + PING + b"\0" + PING),
        ("the same sequence twice", b"\0" + PING + section(b"a", PING) + section(b"a", PING)),
        ("an unknown kind", b"\0" + PING + b"\2"),
        ("a sequence longer than the message", b"\0" + PING + b"\1" + struct.pack("<i", 500) + b"a\0"),
        ("a sequence of negative size", b"\0" + PING + b"\1" + struct.pack("<i", -4) + b"a\0"),
        ("a sequence without a name", b"\0" + PING + b"\1" + struct.pack("<i", 6) + b"ab"),
        ("a document cut off in a sequence", b"\0" + PING + section(b"a", PING[:-3])),
        ("a document that does not end with a NUL", b"\0" + PING[:-1] + b"x"),
        ("a document of 4 bytes", b"\0" + struct.pack("<i", 4) + b"\0"),
        ("a name that is not UTF-8", b"\0" + PING + section(b"\xff", PING)),
    ],
)
def test_malformed_sections_are_refused(why: str, payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(msg(payload))


def test_a_body_may_come_after_its_sequences() -> None:
    message = decode_frame(msg(section(b"documents", PING, PING) + b"\0" + PING))
    assert message.body == PING
    assert message.sequences == {"documents": [PING, PING]}


def test_an_unknown_opcode_is_refused() -> None:
    with pytest.raises(ProtocolError, match="2003"):
        decode_frame(struct.pack("<iiii", 16, 1, 0, 2003))


def test_a_message_longer_than_any_peer_takes_is_not_made() -> None:
    with pytest.raises(ProtocolError):
        encode_message(b"\0" * 48_000_000, request_id=1)
