"""The messages that drivers send most are decoded by a short way, to the same as any other."""

from __future__ import annotations

from random import Random

import bson

from docstore.wire.errors import ProtocolError
from docstore.wire.message import Message, _decode, decode_frame, encode_message


def outcome(decode: object, frame: bytes) -> Message | str:
    assert callable(decode)
    try:
        message = decode(frame)
    except ProtocolError:
        return "refused"
    assert isinstance(message, Message)
    return message


def test_the_short_way_agrees_with_the_long_one_on_sound_and_damaged_frames() -> None:
    rng = Random(23)
    refused = 0
    for _ in range(4000):
        documents = [
            bson.encode({"a": rng.randrange(300), "b": "x" * rng.randrange(5)}) for _ in range(rng.randrange(3))
        ]
        sequences = [(name, documents) for name in ("documents", "more")[: rng.choice([0, 1, 1, 2])]]
        frame = bytearray(encode_message(bson.encode({"insert": "c"}), request_id=5, sequences=sequences))
        if rng.random() < 0.5:
            at = rng.randrange(16, len(frame))
            frame[at] = rng.choice([0, 1, 255, rng.randrange(256)])
        long, short = outcome(_decode, bytes(frame)), outcome(decode_frame, bytes(frame))
        assert long == short
        refused += long == "refused"
    assert refused > 100
