"""Frames come out of the stream as they went in, however it is cut."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.wire import MAX_MESSAGE_BYTES, FrameBuffer, ProtocolError
from docstore.wire.framing import frame_opcode, whole_frame

frames = st.lists(
    st.binary(max_size=60).map(lambda body: struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body), max_size=8
)


def take_all(buffer: FrameBuffer) -> list[bytes]:
    return list(iter(buffer.next_frame, None))


@given(frames, st.lists(st.integers(0, 400), max_size=20))
def test_a_stream_cut_anywhere_gives_the_same_frames(sent: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(sent)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    buffer = FrameBuffer()
    received = []
    for start, end in itertools.pairwise(edges):
        buffer.feed(stream[start:end])
        received += take_all(buffer)
    assert received == sent
    assert len(buffer) == 0


def test_one_byte_at_a_time_is_enough() -> None:
    frame = struct.pack("<iiii", 20, 7, 0, 2013) + b"body"
    buffer = FrameBuffer()
    for at in range(len(frame) - 1):
        buffer.feed(frame[at : at + 1])
        assert buffer.next_frame() is None
    buffer.feed(frame[-1:])
    assert buffer.next_frame() == frame


@pytest.mark.parametrize("length", [-1, 0, 15, MAX_MESSAGE_BYTES + 1, 0x7FFFFFFF])
def test_an_impossible_length_is_refused_before_the_body_comes(length: int) -> None:
    buffer = FrameBuffer()
    buffer.feed(struct.pack("<i", length))
    with pytest.raises(ProtocolError):
        buffer.next_frame()


def test_the_longest_message_is_still_a_message() -> None:
    assert not whole_frame(struct.pack("<iiii", MAX_MESSAGE_BYTES, 1, 0, 2013))


def test_exactly_one_frame_is_recognised() -> None:
    frame = struct.pack("<iiii", 20, 7, 0, 2004) + b"body"
    assert whole_frame(frame)
    assert not whole_frame(frame + b"x")
    assert not whole_frame(frame[:10])
    assert frame_opcode(frame) == 2004


@pytest.mark.parametrize("piece", [1_000, 20_000, 65_536, 300_000])
def test_a_large_frame_comes_out_whole_and_leaves_what_is_behind_it(piece: int) -> None:
    large = struct.pack("<iiii", 700_000, 1, 0, 2013) + bytes(range(256)) * 2735
    large = large[:700_000]
    small = struct.pack("<iiii", 20, 7, 0, 2013) + b"body"
    stream = large + large + small
    buffer = FrameBuffer()
    received = []
    for start in range(0, len(stream), piece):
        buffer.feed(stream[start : start + piece])
        received += take_all(buffer)
        assert len(buffer) == min(start + piece, len(stream)) - sum(map(len, received))
    assert received == [large, large, small]
