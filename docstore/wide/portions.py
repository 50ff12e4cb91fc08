"""Records of many rows as one byte string, for sending between processes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from docstore.wide.execution import Stored
from docstore.wide.mutations import Entry, pack_entries, unpack_entries

_HEAD = struct.Struct(">II")


def pack_rows(rows: Iterable[tuple[bytes, list[Stored]]]) -> bytes:
    """Rows by their parts of keys, each with its records."""
    parts: list[bytes] = []
    for row, entries in rows:
        packed = pack_entries([Entry(path, record) for path, record in entries])
        parts += (_HEAD.pack(len(row), len(packed)), row, packed)
    return b"".join(parts)


def unpack_rows(data: bytes) -> list[tuple[bytes, list[Stored]]]:
    rows: list[tuple[bytes, list[Stored]]] = []
    at = 0
    while at < len(data):
        row_bytes, packed_bytes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        row = data[at : at + row_bytes]
        at += row_bytes
        rows.append((row, [(entry.path, entry.record) for entry in unpack_entries(data[at : at + packed_bytes])]))
        at += packed_bytes
    return rows
