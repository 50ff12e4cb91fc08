"""Records of rows as bytes and documents, for sending between processes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bson.binary import Binary

from docstore.widecolumn.model.executor import ObservedPage, PartitionRead, RecordPage, Stored
from docstore.widecolumn.model.mutations import Entry, pack_entries, unpack_entries

_HEAD = struct.Struct(">II")


def pack_rows(rows: Iterable[tuple[bytes, list[Stored]]]) -> bytes:
    """Rows by their row keys, each with its records."""
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


def seen_document(observed: ObservedPage) -> dict[str, Any]:
    """Return the read and its result as a document, without the row's name."""
    read, page = observed
    return {
        "start": Binary(read.start),
        "end": Binary(read.end),
        "reverse": read.reverse,
        "limit": read.limit,
        "head": read.head,
        "entries": Binary(_packed(page.entries)),
        "more": page.more,
        "before": Binary(_packed(page.head)),
    }


def seen_of(document: Mapping[str, Any], keyspace: str, family: str, key: bytes) -> ObservedPage:
    """Return the read that `seen_document` encoded, for a row."""
    read = PartitionRead(
        keyspace=keyspace,
        family=family,
        key=key,
        start=document["start"],
        end=document["end"],
        reverse=document["reverse"],
        limit=document["limit"],
        head=document["head"],
    )
    return ObservedPage(
        read, RecordPage(_unpacked(document["entries"]), document["more"], _unpacked(document["before"]))
    )


def _packed(stored: Sequence[Stored]) -> bytes:
    return pack_entries([Entry(path, record) for path, record in stored])


def _unpacked(data: bytes) -> list[Stored]:
    return [(entry.path, entry.record) for entry in unpack_entries(data)]
