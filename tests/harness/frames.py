"""Frames that our own code reads and never writes."""

from __future__ import annotations

import struct

from docstore.wire.checksum import crc32c
from docstore.wire.message import CHECKSUM_PRESENT
from docstore.wire.query import OP_DELETE, OP_GET_MORE, OP_INSERT, OP_KILL_CURSORS, OP_QUERY, OP_UPDATE


def with_checksum(frame: bytes) -> bytes:
    """An OP_MSG with a checksum appended."""
    (flags,) = struct.unpack_from("<I", frame, 16)
    head = struct.pack("<i", len(frame) + 4) + frame[4:16] + struct.pack("<I", flags | CHECKSUM_PRESENT)
    return head + frame[20:] + struct.pack("<I", crc32c(head + frame[20:]))


def query(
    document: bytes, *, request_id: int, namespace: str, skip: int = 0, number: int = -1, flags: int = 0
) -> bytes:
    """An OP_QUERY: a command on "<db>.$cmd", as old drivers open a connection, or a find."""
    head = struct.pack("<i", flags) + _name(namespace) + struct.pack("<ii", skip, number)
    return _frame(OP_QUERY, head + document, request_id)


def insert(namespace: str, documents: list[bytes], *, flags: int = 0) -> bytes:
    """An OP_INSERT."""
    return _frame(OP_INSERT, struct.pack("<i", flags) + _name(namespace) + b"".join(documents))


def update(namespace: str, selector: bytes, change: bytes, *, flags: int = 0) -> bytes:
    """An OP_UPDATE. Flags: 1 upsert, 2 multi."""
    return _frame(OP_UPDATE, bytes(4) + _name(namespace) + struct.pack("<i", flags) + selector + change)


def delete(namespace: str, selector: bytes, *, flags: int = 0) -> bytes:
    """An OP_DELETE. Flag 1: only one document."""
    return _frame(OP_DELETE, bytes(4) + _name(namespace) + struct.pack("<i", flags) + selector)


def get_more(namespace: str, number: int, cursor_id: int) -> bytes:
    """An OP_GET_MORE."""
    return _frame(OP_GET_MORE, bytes(4) + _name(namespace) + struct.pack("<iq", number, cursor_id))


def kill_cursors(*ids: int) -> bytes:
    """An OP_KILL_CURSORS."""
    return _frame(OP_KILL_CURSORS, struct.pack(f"<ii{len(ids)}q", 0, len(ids), *ids))


def _name(namespace: str) -> bytes:
    return namespace.encode() + b"\0"


def _frame(opcode: int, body: bytes, request_id: int = 1) -> bytes:
    return struct.pack("<iiii", 16 + len(body), request_id, 0, opcode) + body
