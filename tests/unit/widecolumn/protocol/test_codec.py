"""The framing of the native protocol, bytes of public examples among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.codec import MAX_STRANGER_BODY_BYTES, Response, ServerCodec
from docstore.widecolumn.protocol.compression import LZ4, SNAPPY
from docstore.widecolumn.protocol.envelopes import Envelope
from docstore.widecolumn.protocol.errors import (
    DamagedSegment,
    FramingViolation,
    OversizedRequest,
    ProtocolViolation,
    UnsupportedVersion,
)
from docstore.widecolumn.protocol.opcodes import V4, V5, EnvelopeFlag, Opcode
from docstore.widecolumn.protocol.requests import (
    EventType,
    OptionsRequest,
    QueryParameters,
    QueryRequest,
    RegisterRequest,
    StartupRequest,
    read_request,
)
from docstore.widecolumn.protocol.segments import MAX_PAYLOAD_BYTES, SegmentBuffer, crc32, encode_segment
from tests.unit.widecolumn.protocol.client_frames import envelope, payloads_in, replies_in, request_bytes


def requests_in(codec: ServerCodec, data: bytes) -> list[Envelope]:
    codec.feed(data)
    found: list[Envelope] = []
    while (one := codec.next_envelope()) is not None:
        found.append(one)
    return found


def started(version: int, compression: str | None = None) -> ServerCodec:
    codec = ServerCodec()
    requests_in(codec, envelope(version, 0, Opcode.OPTIONS, b""))
    codec.start(compression)
    return codec


def test_examples_of_version_4() -> None:
    data = bytes.fromhex(
        "0400000005000000000400000101000000160001000B43514C5F56455253494F4E0005332E342E35"
        "0400000207000000160000000F53454C454354202A2046524F4D2074000100"
    )
    options, startup, query = requests_in(ServerCodec(), data)
    assert read_request(options) == OptionsRequest()
    assert (startup.stream, read_request(startup)) == (1, StartupRequest({"CQL_VERSION": "3.4.5"}))
    read = read_request(query)
    assert isinstance(read, QueryRequest)
    assert (query.stream, read.text) == (2, "SELECT * FROM t")


def test_examples_of_version_5() -> None:
    request = RegisterRequest(frozenset(EventType))
    raw = request_bytes(request, V5, 2)
    # The names stand in the order of the alphabet here, so the payload's checksum is that of another order.
    segment = encode_segment(raw, is_self_contained=True, compressed=False)
    assert len(raw) == 58
    assert segment[:6] == bytes.fromhex("3A0002736183")
    assert crc32(b"").to_bytes(4, "little") == bytes.fromhex("D37E7744")
    names = bytes.fromhex("0003") + b"".join(
        len(name).to_bytes(2, "big") + name for name in (b"TOPOLOGY_CHANGE", b"STATUS_CHANGE", b"SCHEMA_CHANGE")
    )
    assert crc32(envelope(V5, 2, Opcode.REGISTER, names)).to_bytes(4, "little") == bytes.fromhex("72F55F1F")
    codec = started(V5)
    assert [read_request(one) for one in requests_in(codec, segment)] == [request]


def test_requests_come_whole_however_the_bytes_are_cut() -> None:
    for version, compression in ((V4, None), (V4, LZ4), (V4, SNAPPY), (V5, None), (V5, LZ4)):
        big = QueryRequest("SELECT " + "x" * 300_000, QueryParameters(level=Level.ONE))
        raw = [request_bytes(OptionsRequest(), version, 1), request_bytes(big, version, 2)]
        if version == V5:
            packed = compression is not None
            data = encode_segment(raw[0] * 2, is_self_contained=True, compressed=packed)
            for at in range(0, len(raw[1]), MAX_PAYLOAD_BYTES):
                data += encode_segment(raw[1][at : at + MAX_PAYLOAD_BYTES], is_self_contained=False, compressed=packed)
        else:
            data = raw[0] * 2 + raw[1]
        for step in (len(data), 70_001, 997):
            codec = started(version, compression)
            found = [one for at in range(0, len(data), step) for one in requests_in(codec, data[at : at + step])]
            assert [one.stream for one in found] == [1, 1, 2]
            assert read_request(found[2]) == big
            assert len(codec) == 0


@pytest.mark.parametrize(("version", "compression"), [(V4, None), (V4, LZ4), (V4, SNAPPY), (V5, None), (V5, LZ4)])
def test_responses_are_read_back_by_the_same_framing(version: int, compression: str | None) -> None:
    codec = started(version, compression)
    bodies = [b"", b"a" * 5000, bytes(range(256)) * 2000]
    sent = codec.encode(Response(stream, Opcode.RESULT, body) for stream, body in enumerate(bodies))
    if version == V5:
        segments = SegmentBuffer(compressed=compression is not None)
        segments.feed(sent)
        sent = b""
        while (segment := segments.next_segment()) is not None:
            sent += segment.payload
    seen = []
    peer = started(V4, None if version == V5 else compression)
    for reply, _ in replies_in(sent):
        assert reply.version == version
        flags = EnvelopeFlag.COMPRESSED if compression and version == V4 and len(bodies[reply.stream]) > 1023 else 0
        [read] = requests_in(peer, envelope(V4, reply.stream, reply.opcode, reply.body, flags))
        seen.append(read.body)
    assert seen == bodies


def test_small_responses_share_one_segment() -> None:
    codec = started(V5)
    sent = codec.encode([Response(stream, Opcode.READY, b"") for stream in range(100)])
    assert int.from_bytes(sent[:3], "little") == 900 | 1 << 17
    payloads, end = payloads_in(sent)
    assert end == len(sent)
    assert [reply.stream for reply, _ in replies_in(payloads)] == list(range(100))


@pytest.mark.parametrize("version", [0x42, 0x41, 6, 3, 0x84, 0xFF])
def test_another_version_is_refused_on_its_stream(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="unsupported protocol version") as refusal:
        requests_in(ServerCodec(), envelope(version, 7, Opcode.OPTIONS, b""))
    assert refusal.value.stream == 7


def test_an_old_version_is_refused_at_its_first_byte() -> None:
    with pytest.raises(UnsupportedVersion):
        requests_in(ServerCodec(), b"\x02")


def test_the_version_stays() -> None:
    codec = started(V4)
    with pytest.raises(FramingViolation, match="Got 5/v5"):
        requests_in(codec, envelope(V5, 3, Opcode.OPTIONS, b""))


@pytest.mark.parametrize("length", [-1, -(1 << 31), MAX_STRANGER_BODY_BYTES + 1, (1 << 31) - 1])
def test_a_length_is_judged_before_the_body_is_there(length: int) -> None:
    codec = ServerCodec(limit=MAX_STRANGER_BODY_BYTES)
    with pytest.raises(FramingViolation if length < 0 else OversizedRequest) as refusal:
        requests_in(codec, b"\x04\0\0\5\7" + length.to_bytes(4, "big", signed=True))
    assert refusal.value.stream == 5
    assert len(codec) < 10


def test_a_compressed_body_is_judged_before_it_is_inflated() -> None:
    for compression, body in ((LZ4, b"\x7f\xff\xff\xff\0"), (SNAPPY, b"\xff\xff\xff\xff\x0f"), (LZ4, b"\0")):
        codec = started(V4, compression)
        with pytest.raises(ProtocolViolation) as refusal:
            requests_in(codec, envelope(V4, 1, Opcode.QUERY, body, EnvelopeFlag.COMPRESSED))
        assert refusal.value.stream == 1
        assert not isinstance(refusal.value, FramingViolation)
        # The next request is read.
        assert len(requests_in(codec, envelope(V4, 1, Opcode.OPTIONS, b""))) == 1


def test_compression_must_have_been_agreed_on() -> None:
    with pytest.raises(ProtocolViolation):
        requests_in(started(V4), envelope(V4, 1, Opcode.QUERY, b"x", EnvelopeFlag.COMPRESSED))


@pytest.mark.parametrize("compressed", [False, True])
def test_every_flipped_bit_of_a_segment_is_noticed(compressed: bool) -> None:
    raw = encode_segment(envelope(V5, 1, Opcode.OPTIONS, b"") * 9, is_self_contained=True, compressed=compressed)
    for bit in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        codec = started(V5, LZ4 if compressed else None)
        with pytest.raises(DamagedSegment):
            assert requests_in(codec, bytes(damaged)) == []


def test_slices_hold_to_the_envelope() -> None:
    one = envelope(V5, 1, Opcode.OPTIONS, b"")
    part = encode_segment(one[:5], is_self_contained=False, compressed=False)
    for second in (
        encode_segment(one, is_self_contained=True, compressed=False),
        encode_segment(one[5:] + one, is_self_contained=False, compressed=False),
    ):
        with pytest.raises(DamagedSegment):
            requests_in(started(V5), part + second)
    with pytest.raises(DamagedSegment):
        requests_in(started(V5), encode_segment(one + one[:4], is_self_contained=True, compressed=False))


@given(st.binary(max_size=400), st.sampled_from([(V4, None), (V4, LZ4), (V4, SNAPPY), (V5, None), (V5, LZ4)]))
def test_any_bytes_are_requests_or_violations(data: bytes, spoken: tuple[int, str | None]) -> None:
    codec = started(*spoken)
    try:
        for one in requests_in(codec, data):
            read_request(one)
    except ProtocolViolation:
        pass
    assert len(codec) <= 400
