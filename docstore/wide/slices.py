"""Reading a row: columns by name or by range, live at one second, under the deletions that hide them.

A slice is one range scan, forwards or backwards: nothing outside the range is looked at, and the scan stops when enough
live columns have been found. What a read looked at is counted (`Counts`).

A name is hidden by a deletion of its row or super column with the same or a later timestamp. A super column exists
while one of its columns is live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, NamedTuple, Protocol, TypeVar

from docstore.errors import CommandError
from docstore.wide.cells import NOT_DELETED, Cell, Deletion, unpack_cell, unpack_deletion
from docstore.wide.comparators import Comparator
from docstore.wide.errors import invalid_request
from docstore.wide.keys import COLUMNS, ROW_DELETION, SUB_COLUMN, SUPER_DELETION, after_name, after_part, columns_range
from docstore.wide.schema import ColumnFamily

_TOMBSTONE_OVERWHELMING = 96  # OperationFailed
MAX_UNORDERED_NAMES = 100_000


class Cells(Protocol):
    """Reads of the `wide` family in one state. Ranges are half-open."""

    def get(self, key: bytes) -> bytes | None: ...

    def items(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...


class Column(NamedTuple):
    """A live column."""

    name: bytes
    cell: Cell


class SuperColumn(NamedTuple):
    """A super column with its live columns, of which there is at least one."""

    name: bytes
    columns: list[Column]


@dataclass(slots=True)
class Counts:
    """What reads have looked at. More tombstones than `limit` fail the read."""

    limit: int
    keys_examined: int = 0
    tombstones: int = 0

    def tombstone(self) -> None:
        self.tombstones += 1
        if self.tombstones > self.limit:
            raise CommandError(
                _TOMBSTONE_OVERWHELMING,
                f"the read met more than {self.limit} tombstones",
                extra={"wcException": "TombstoneOverwhelming"},
            )


@dataclass(frozen=True, slots=True)
class SliceRange:
    """Names from `start` to `finish` in the order of traversal, both inclusive; empty bounds are open."""

    start: bytes = b""
    finish: bytes = b""
    reversed: bool = False
    count: int = 100


Named = TypeVar("Named", Column, SuperColumn)

Predicate = SliceRange | tuple[bytes, ...]
"""A range of names, or the names themselves."""


def check_range(comparator: Comparator, wanted: SliceRange) -> None:
    """InvalidRequest for bounds in the wrong order and for a negative count."""
    if wanted.count < 0:
        raise invalid_request("get_slice requires non-negative count")
    if wanted.start and wanted.finish:
        order = comparator.compare(wanted.start, wanted.finish)
        if order < 0 if wanted.reversed else order > 0:
            raise invalid_request("range finish must come after start in the order of traversal")


class RowReader:
    """One row of a column family in one state, at one second (`now`)."""

    def __init__(self, reader: Cells, family: ColumnFamily, prefix: bytes, now: int, counts: Counts) -> None:
        self._reader = reader
        self._family = family
        self._prefix = prefix
        self._now = now
        self._counts = counts
        record = reader.get(prefix + ROW_DELETION)
        self._deleted = NOT_DELETED if record is None else unpack_deletion(record)

    def column(self, name: bytes, super_name: bytes | None = None) -> Column | None:
        """One column, if it is live."""
        base, comparator, deleted = self._level(super_name)
        return self._at(base + comparator.encode(name), name, deleted)

    def columns(self, predicate: Predicate, super_name: bytes | None = None) -> list[Column]:
        """The columns of a Standard row, or of one super column, in the order asked for."""
        base, comparator, deleted = self._level(super_name)
        if isinstance(predicate, tuple):
            names = sorted(set(predicate), key=cmp_to_key(comparator.compare))
            return [
                column
                for name in names
                if (column := self._at(base + comparator.encode(name), name, deleted)) is not None
            ]
        if not comparator.ordered:
            return _sliced(list(self._live(base, after_part(base), False, comparator, deleted)), comparator, predicate)
        if predicate.count == 0:
            return []
        lo, hi = _bounds(base, comparator, predicate)
        taken: list[Column] = []
        for column in self._live(lo, hi, predicate.reversed, comparator, deleted, len(base)):
            taken.append(column)
            if len(taken) == predicate.count:
                break
        return taken

    def count_columns(self, super_name: bytes | None = None) -> int:
        """How many live columns the row, or the super column, has."""
        base, comparator, deleted = self._level(super_name)
        return sum(1 for _ in self._live(base, after_part(base), False, comparator, deleted, len(base)))

    def super_column(self, name: bytes) -> SuperColumn | None:
        """One super column, whole, if it exists."""
        columns = self.columns(SliceRange(count=1 << 62), name)
        return SuperColumn(name, columns) if columns else None

    def super_columns(self, predicate: Predicate) -> list[SuperColumn]:
        """Super columns by name or range, each whole."""
        comparator = self._family.comparator
        if isinstance(predicate, tuple):
            names = sorted(set(predicate), key=cmp_to_key(comparator.compare))
            return [column for name in names if (column := self.super_column(name)) is not None]
        if predicate.count == 0:
            return []
        base = self._prefix + COLUMNS
        if not comparator.ordered:
            every = list(self._supers(base, after_part(base), False, 1 << 62))
            return _sliced(every, comparator, predicate)
        lo, hi = _bounds(base, comparator, predicate)
        return list(self._supers(lo, hi, predicate.reversed, predicate.count))

    def count_super_columns(self) -> int:
        base = self._prefix + COLUMNS
        return sum(1 for _ in self._supers(base, after_part(base), False, 1 << 62))

    def has_anything(self) -> bool:
        """Whether anything of the row is stored, live or not."""
        lo, hi = columns_range(self._prefix)
        return self._deleted is not NOT_DELETED or next(self._reader.items(lo, hi), None) is not None

    def _level(self, super_name: bytes | None) -> tuple[bytes, Comparator, Deletion]:
        """(what the paths of the columns begin with, their comparator, what hides them)."""
        family = self._family
        if super_name is None:
            return self._prefix + COLUMNS, family.comparator, self._deleted
        assert family.subcomparator is not None, "a Standard family has no super columns"
        base = self._prefix + COLUMNS + family.comparator.encode(super_name)
        record = self._reader.get(base + SUPER_DELETION)
        deleted = self._deleted if record is None else max(self._deleted, unpack_deletion(record))
        return base + SUB_COLUMN, family.subcomparator, deleted

    def _at(self, key: bytes, name: bytes, deleted: Deletion) -> Column | None:
        record = self._reader.get(key)
        self._counts.keys_examined += 1
        if record is None:
            return None
        cell = unpack_cell(record)
        if cell.timestamp <= deleted.timestamp or not cell.is_live(self._now):
            self._counts.tombstone()
            return None
        return Column(name, cell)

    def _live(
        self,
        lo: bytes,
        hi: bytes,
        backwards: bool,
        comparator: Comparator,
        deleted: Deletion,
        name_at: int | None = None,
    ) -> Iterator[Column]:
        counts, now, hidden = self._counts, self._now, deleted.timestamp
        decode = comparator.decode
        at = len(lo) if name_at is None else name_at
        for key, record in self._reader.items(lo, hi, backwards):
            counts.keys_examined += 1
            cell = unpack_cell(record)
            if cell.timestamp <= hidden or not cell.is_live(now):
                counts.tombstone()
                continue
            yield Column(decode(key, at)[0], cell)

    def _supers(self, lo: bytes, hi: bytes, backwards: bool, count: int) -> Iterator[SuperColumn]:
        """Super columns whose keys lie in the range. The keys of one lie together, its deletion first of all."""
        at = len(self._prefix) + len(COLUMNS)
        group: list[tuple[bytes, bytes]] = []
        standing = b""
        given = 0
        for key, record in self._reader.items(lo, hi, backwards):
            self._counts.keys_examined += 1
            if not standing or not key.startswith(standing):
                found = self._assembled(group, standing, at)
                if found is not None:
                    yield found
                    given += 1
                    if given == count:
                        return
                standing = key[: self._family.comparator.decode(key, at)[1]]
                group = []
            group.append((key, record))
        found = self._assembled(group, standing, at)
        if found is not None:
            yield found

    def _assembled(self, group: Sequence[tuple[bytes, bytes]], standing: bytes, at: int) -> SuperColumn | None:
        """The super column of which `group` are the keys and records, if one of its columns is live."""
        subcomparator = self._family.subcomparator
        assert subcomparator is not None, "a Standard family has no super columns"
        mark = len(standing)
        deleted = self._deleted
        columns: list[tuple[bytes, Cell]] = []
        for key, record in group:
            if key[mark : mark + 1] == SUPER_DELETION:
                deleted = max(deleted, unpack_deletion(record))
            else:
                columns.append((key, unpack_cell(record)))
        live: list[Column] = []
        for key, cell in sorted(columns):
            if cell.timestamp <= deleted.timestamp or not cell.is_live(self._now):
                self._counts.tombstone()
            else:
                live.append(Column(subcomparator.decode(key, mark + 1)[0], cell))
        if not live:
            return None
        if not subcomparator.ordered:
            live.sort(key=_by_name(subcomparator))
        return SuperColumn(self._family.comparator.decode(standing, at)[0], live)


def _bounds(base: bytes, comparator: Comparator, wanted: SliceRange) -> tuple[bytes, bytes]:
    """The half-open range of keys that a range of names stands for."""
    lower, upper = (wanted.finish, wanted.start) if wanted.reversed else (wanted.start, wanted.finish)
    lo = base + comparator.encode(lower) if lower else base
    hi = after_name(base + comparator.encode(upper)) if upper else after_part(base)
    return lo, hi


def _sliced(found: list[Named], comparator: Comparator, wanted: SliceRange) -> list[Named]:
    """A slice made in memory, where names do not lie in their order. Of names that compare equal the newest counts."""
    if len(found) > MAX_UNORDERED_NAMES:
        raise invalid_request(f"a row sorted by {comparator.name} must not have more than {MAX_UNORDERED_NAMES} names")
    lower, upper = (wanted.finish, wanted.start) if wanted.reversed else (wanted.start, wanted.finish)
    inside = [
        item
        for item in found
        if (not lower or comparator.compare(lower, item.name) <= 0)
        and (not upper or comparator.compare(item.name, upper) <= 0)
    ]
    inside.sort(key=_by_name(comparator), reverse=wanted.reversed)
    return inside[: wanted.count]


def _by_name(comparator: Comparator) -> Callable[[Column | SuperColumn], Any]:
    by_bytes = cmp_to_key(comparator.compare)
    return lambda item: by_bytes(item.name)
