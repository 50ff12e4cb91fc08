"""Validation of requests between processes: malformed input neither ends the node nor gets stored."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from docstore.bson import BINARY, Value, document_to_python, get_field
from docstore.errors import Code, CommandError
from docstore.kernel.columns.encoding import WHOLE
from docstore.query.value.values import TYPE_NAMES
from docstore.widecolumn.model.cells import is_record
from docstore.widecolumn.model.executor import ObservedPage, RowWrite
from docstore.widecolumn.model.keys import COLUMNS, RANGE_DELETION, ROW_DELETION, STATIC, SUPER_DELETION
from docstore.widecolumn.model.mutations import Entry, pack_entries, unpack_entries
from docstore.widecolumn.model.record_pages import seen_of

_AREAS = (STATIC, RANGE_DELETION, COLUMNS)
_STATIC_COLUMN_END = 5
"""The length of the area and a column's id."""


def bytes_of(value: Value | None, name: str) -> bytes:
    """Return the content of a binary value. TypeMismatch."""
    if value is None or value[0] != BINARY:
        type_name = "missing" if value is None else TYPE_NAMES[value[0]]
        raise CommandError(Code.TypeMismatch, f"'{name}' is the wrong type '{type_name}', expected type 'binData'")
    return bytes(value[1][5:])


def writes_of(documents: Sequence[bytes], keyspace: str, family: str) -> list[RowWrite]:
    """`{key, entries}` of each row. TypeMismatch, BadValue."""
    return [
        RowWrite(keyspace, family, bytes_of(get_field(raw, "key"), "key"), _entries(get_field(raw, "entries")))
        for raw in documents
    ]


def _entries(value: Value | None) -> tuple[Entry, ...]:
    packed = bytes_of(value, "entries")
    try:
        entries = unpack_entries(packed)
    except struct.error:
        raise _malformed() from None
    # The last one may have been cut off.
    if not all(_is_sound(entry) for entry in entries) or pack_entries(entries) != packed:
        raise _malformed()
    return entries


def _is_sound(entry: Entry) -> bool:
    """True if some column family can hold the entry."""
    path, record, named = entry
    if not is_record(record) or named > len(path):
        return False
    is_whole = bool(record[0] & WHOLE)
    area = path[:1]
    if area in (ROW_DELETION, RANGE_DELETION):
        return is_whole and (len(path) > 1) == (area == RANGE_DELETION)
    if area == STATIC and is_whole:
        # Only the elements of a collection are deleted together.
        return path[_STATIC_COLUMN_END:] == SUPER_DELETION
    return area in _AREAS and (area == COLUMNS or not is_whole) and len(path) > 1


def seen_parts(documents: Sequence[bytes], write: RowWrite) -> list[ObservedPage]:
    """Return the reads of a conditional write. BadValue."""
    try:
        return [seen_of(document_to_python(raw), write.keyspace, write.family, write.key) for raw in documents]
    except (KeyError, TypeError, ValueError, struct.error, CommandError):
        raise _malformed() from None


def _malformed() -> Exception:
    return CommandError(Code.BadValue, "the mutations of a row are malformed")
