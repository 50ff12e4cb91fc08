"""Frames that our own code reads and never writes."""

from __future__ import annotations

import struct

from docstore.wire.checksum import crc32c
from docstore.wire.message import CHECKSUM_PRESENT
from docstore.wire.query import OP_QUERY


def with_checksum(frame: bytes) -> bytes:
    """An OP_MSG with a checksum appended."""
    (flags,) = struct.unpack_from("<I", frame, 16)
    head = struct.pack("<i", len(frame) + 4) + frame[4:16] + struct.pack("<I", flags | CHECKSUM_PRESENT)
    return head + frame[20:] + struct.pack("<I", crc32c(head + frame[20:]))


def query(document: bytes, *, request_id: int, namespace: str) -> bytes:
    """An OP_QUERY for one command, as old drivers open a connection."""
    body = struct.pack("<i", 0) + namespace.encode() + b"\0" + struct.pack("<ii", 0, -1) + document
    return struct.pack("<iiii", 16 + len(body), request_id, 0, OP_QUERY) + body
