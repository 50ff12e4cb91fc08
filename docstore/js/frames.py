"""Frames between the server and a worker process: length (4 bytes, little-endian), kind (1 byte), payload.

The server sends one JOB, any number of DOCUMENTS and one END; the worker answers with any number of RESULTS and
PRINTED and then one DONE or FAILED. A worker that has failed reads and drops frames up to END, so that both sides
agree where the next job starts. Both final frames carry `peak`, the most memory in bytes that the worker ever held.
A JOB that asks for evaluation is followed by any number of CALLS, each answered by one ANSWER, and by END, which only
DONE answers.

Payloads of DOCUMENTS and RESULTS are whole BSON documents put end to end.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum

HEADER = struct.Struct("<IB")

CHUNK = 1024 * 1024
"""Bytes of documents put into one frame, unless one document alone is larger."""


class Kind(IntEnum):
    """The kinds of frames."""

    JOB = 1
    DOCUMENTS = 2
    END = 3
    RESULTS = 4
    PRINTED = 5
    DONE = 6
    FAILED = 7
    CALLS = 8
    ANSWER = 9


def frame(kind: Kind, payload: bytes | memoryview = b"") -> bytes:
    """One frame as bytes."""
    return HEADER.pack(len(payload), kind) + payload


def chunks(documents: Sequence[bytes]) -> Iterator[bytes]:
    """Documents put end to end in pieces of about CHUNK bytes, none of them empty."""
    start = size = 0
    for position, document in enumerate(documents):
        if size and size + len(document) > CHUNK:
            yield b"".join(documents[start:position])
            start, size = position, 0
        size += len(document)
    if size:
        yield b"".join(documents[start:])


def split_documents(payload: bytes) -> list[bytes]:
    """The inverse of joining: each document of a payload on its own."""
    documents = []
    position, end = 0, len(payload)
    while position < end:
        length = int.from_bytes(payload[position : position + 4], "little")
        documents.append(payload[position : position + length])
        position += length
    return documents


def receive_exactly(channel: socket.socket, target: memoryview) -> bool:
    """Fill `target` from a blocking socket; False when the peer has gone."""
    while target:
        count = channel.recv_into(target)
        if count == 0:
            return False
        target = target[count:]
    return True
