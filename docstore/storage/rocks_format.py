"""RocksDB's record logs, version edits and write batches, as bytes.

The write-ahead logs and the MANIFEST are record logs: blocks of 32 KiB with fragments, each with a CRC-32C. The formats
follow RocksDB's published descriptions. This module opens no files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fastcrc.crc32 import iscsi as crc32c

_BLOCK_BYTES = 32_768
_HEADER = struct.Struct("<IHB")
_HEADER_BYTES = _HEADER.size
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LAST_RECORD_TYPE = 0x8F
_BATCH_HEADER = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Gap:
    """The bytes `[start, end)` of a record log without a readable record."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record; `end` is the offset behind its last byte. `is_joined`: it has fragments in several blocks."""

    payload: bytes
    end: int
    is_joined: bool = False


def read_records(data: Any) -> Iterator[LogRecord | Gap]:
    """Yield the records of a log (bytes or an mmap) in order, and the gaps between them.

    Behind damage, reading resumes with the first fragment of a whole record: in the same block if the damaged record's
    length leads there, else in the next block.
    """
    size = len(data)
    position = begin = 0
    fragments: list[bytes] = []
    gap: int | None = None
    while position < size:
        room = _BLOCK_BYTES - position % _BLOCK_BYTES
        if room < _HEADER_BYTES:
            position += room
            continue
        fragment = _fragment(data, position, min(room, size - position))
        if fragment is None:
            if gap is None:
                gap = begin if fragments else position
            fragments = []
            position += _damaged_bytes(data, position, min(room, size - position))
            continue
        kind, payload = fragment
        if kind in (_FULL, _FIRST):
            if fragments and gap is None:
                gap = begin
            fragments = []
            if gap is not None:
                yield Gap(gap, position)
                gap = None
            begin = position
        elif kind in (_MIDDLE, _LAST) and not fragments and gap is None:
            gap = position
        position += _HEADER_BYTES + len(payload)
        if kind == _FULL:
            yield LogRecord(payload, position)
        elif gap is None and kind in (_FIRST, _MIDDLE, _LAST):
            fragments.append(payload)
            if kind == _LAST:
                yield LogRecord(b"".join(fragments), position, is_joined=True)
                fragments = []
    if gap is None and fragments:
        gap = begin
    if gap is not None:
        yield Gap(gap, size)


def _fragment(data: Any, position: int, room: int) -> tuple[int, bytes] | None:
    """Return (type, payload) of the fragment at `position`, or None if there is no intact one in `room` bytes."""
    if room < _HEADER_BYTES:
        return None
    checksum, length, kind = _HEADER.unpack(data[position : position + _HEADER_BYTES])
    if not 0 < kind <= _LAST_RECORD_TYPE or _HEADER_BYTES + length > room:
        return None
    checked = bytes(data[position + 6 : position + _HEADER_BYTES + length])
    return (kind, checked[1:]) if _mask(crc32c(checked)) == checksum else None


def log_head(log: bytes) -> int:
    """Return the checksum at the start of a log, which distinguishes logs; 0 if nothing is written yet."""
    return int.from_bytes(log[:4], "little")


def is_head_intact(log: Any) -> bool:
    """Return True if the first fragment of a log (bytes or an mmap) has the checksum that it begins with."""
    return _fragment(log, 0, min(_BLOCK_BYTES, len(log))) is not None


def _damaged_bytes(data: Any, position: int, room: int) -> int:
    """Return the bytes to skip behind a damaged fragment, of the `room` bytes to the end of the block."""
    if room >= _HEADER_BYTES:
        _, length, _ = _HEADER.unpack(data[position : position + _HEADER_BYTES])
        fragment_bytes = _HEADER_BYTES + int(length)
        if fragment_bytes < room and _fragment(data, position + fragment_bytes, room - fragment_bytes) is not None:
            return fragment_bytes
    return room


def _mask(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def append_record(data: bytes, payload: bytes) -> bytes:
    """Return the bytes that append one record to the log `data`."""
    pieces: list[bytes] = []
    position, first = len(data), True
    while True:
        room = _BLOCK_BYTES - position % _BLOCK_BYTES
        if room < _HEADER_BYTES:
            pieces.append(bytes(room))
            position += room
            continue
        piece, payload = payload[: room - _HEADER_BYTES], payload[room - _HEADER_BYTES :]
        last = not payload
        kind = bytes([_FULL if first and last else _FIRST if first else _LAST if last else _MIDDLE])
        pieces.append(_HEADER.pack(_mask(crc32c(kind + piece)), len(piece), kind[0]) + piece)
        if last:
            return b"".join(pieces)
        position += _HEADER_BYTES + len(piece)
        first = False


# Version edits


class FormatError(Exception):
    """The bytes have an unknown format."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live sorted file; the keys are user keys."""

    number: int
    level: int
    size: int
    smallest: bytes
    largest: bytes
    smallest_sequence: int
    largest_sequence: int


@dataclass(slots=True)
class ColumnFamily:
    """The state of one family in a MANIFEST: its live files by number, and the first log that it still needs."""

    name: str
    log_number: int = 0
    files: dict[int, TableFile] = field(default_factory=dict)


@dataclass(slots=True)
class Version:
    """The state after the version edits of a MANIFEST, applied in order."""

    families: dict[int, ColumnFamily] = field(default_factory=lambda: {0: ColumnFamily("default")})
    min_log_number: int = 0
    last_sequence: int = 0
    logless_sequences: set[int] = field(default_factory=set)
    """The sequence numbers of ingested files, which appear in no log. (Files with a single change are included.)"""
    readable: int = 0
    """Bytes of the MANIFEST up to the end of its last edit."""

    @property
    def first_log(self) -> int:
        """The number of the first write-ahead log with data of no sorted file."""
        return max(self.min_log_number, min(family.log_number for family in self.families.values()))

    def apply(self, edit: bytes) -> None:
        """Apply one version edit. Errors: FormatError."""
        try:
            self._apply(_Fields(edit))
        except (IndexError, KeyError) as error:
            raise FormatError(f"a version edit cannot be read: {error!r}") from error

    def _apply(self, fields: _Fields) -> None:
        edit = _Edit()
        while not fields.at_end:
            edit.read_field(fields)
        self.last_sequence = max(self.last_sequence, edit.last_sequence)
        self.min_log_number = max(self.min_log_number, edit.min_log_number)
        if edit.added is not None:
            self.families[edit.family] = ColumnFamily(edit.added)
        if edit.is_dropped:
            del self.families[edit.family]
            return
        family = self.families[edit.family]
        family.log_number = max(family.log_number, edit.log_number)
        for number in edit.deleted:
            family.files.pop(number, None)
        for file in edit.files:
            family.files[file.number] = file
            if file.smallest_sequence == file.largest_sequence:
                self.logless_sequences.add(file.largest_sequence)


_SKIPPED_NUMBERS, _SKIPPED_TEXTS = (3, 9, 203, 300), (1,)
"""Tags of fields that do not matter here, by the form of their values."""


@dataclass(slots=True)
class _Edit:
    """One version edit, field by field."""

    family: int = 0
    added: str | None = None
    is_dropped: bool = False
    log_number: int = 0
    min_log_number: int = 0
    last_sequence: int = 0
    deleted: list[int] = field(default_factory=list)
    files: list[TableFile] = field(default_factory=list)

    def read_field(self, fields: _Fields) -> None:
        """Read one field. Errors: FormatError, IndexError."""
        tag = fields.number()
        if tag in _NUMBERS:
            setattr(self, _NUMBERS[tag], fields.number())
        elif tag == 201:
            self.added = fields.text().decode("utf-8", "replace")
        elif tag == 202:
            self.is_dropped = True
        elif tag == 5:
            fields.number()
            fields.text()
        elif tag == 6:
            fields.number()
            self.deleted.append(fields.number())
        elif tag == 103:
            self.files.append(_table_file(fields))
        elif tag in _SKIPPED_NUMBERS:
            fields.number()
        elif tag in _SKIPPED_TEXTS or tag & 1 << 13:
            fields.text()
        else:
            raise FormatError(f"a version edit has the unknown tag {tag}")


_NUMBERS = {200: "family", 2: "log_number", 10: "min_log_number", 4: "last_sequence"}


def _table_file(fields: _Fields) -> TableFile:
    level, number, size = fields.number(), fields.number(), fields.number()
    # Internal keys end with 8 bytes of sequence number and type.
    smallest, largest = fields.text()[:-8], fields.text()[:-8]
    smallest_sequence, largest_sequence = fields.number(), fields.number()
    while fields.number() != 1:
        fields.text()
    return TableFile(number, level, size, smallest, largest, smallest_sequence, largest_sequence)


def removal_edit(family: int, file: TableFile) -> bytes:
    """Return the version edit that removes a file from a family."""
    return b"".join(map(_varint, (200, family, 6, file.level, file.number)))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class _Fields:
    """Reads varints and length-prefixed strings in sequence. Errors: IndexError."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._data)

    def byte(self) -> int:
        self._position += 1
        return self._data[self._position - 1]

    def number(self) -> int:
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def text(self) -> bytes:
        length = self.number()
        start, end = self._position, self._position + length
        if end > len(self._data):
            raise IndexError("a string is cut")
        self._position = end
        return self._data[start:end]


# Write batches

PUT, DELETE, DELETE_RANGE = "put", "delete", "delete range"
Operation = tuple[str, int, bytes, bytes]
"""(Kind, family, key, value); a range has its end as the value."""

_OPERATIONS = {
    0x0: (DELETE, False), 0x1: (PUT, False), 0x4: (DELETE, True), 0x5: (PUT, True), 0x7: (DELETE, False),
    0x8: (DELETE, True), 0xE: (DELETE_RANGE, True), 0xF: (DELETE_RANGE, False),
}  # fmt: skip


def batch_sequences(batch: bytes) -> tuple[int, int]:
    """Return (first sequence number, count of changes) of a write batch. Errors: FormatError."""
    if len(batch) < _BATCH_HEADER.size:
        raise FormatError("a write batch is shorter than its header")
    sequence, count = _BATCH_HEADER.unpack_from(batch)
    return sequence, count


def is_next_sequence(sequence: int, last: int, logless: set[int]) -> bool:
    """Return True if the change `sequence` of a log follows the change `last`.

    Only `logless` ones may lie between them.
    """
    if sequence == last + 1:
        return True
    return 0 < sequence - last - 1 <= len(logless) and logless.issuperset(range(last + 1, sequence))


def batch_operations(batch: bytes) -> Iterator[Operation]:
    """Yield the changes of a write batch in order. Errors: FormatError."""
    fields = _Fields(batch, _BATCH_HEADER.size)
    try:
        while not fields.at_end:
            tag = fields.byte()
            if tag == 0xD:
                continue
            if tag == 0x3:
                fields.text()
                continue
            if tag not in _OPERATIONS:
                raise FormatError(f"a write batch has the unknown tag {tag}")
            kind, has_family = _OPERATIONS[tag]
            family = fields.number() if has_family else 0
            key = fields.text()
            yield kind, family, key, fields.text() if kind is not DELETE else b""
    except IndexError as error:
        raise FormatError("a write batch is cut") from error
