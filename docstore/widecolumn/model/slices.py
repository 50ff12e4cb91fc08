"""Reading a row: columns by name or by range, live at one second, without those that deletions hide.

A slice is one range scan, forwards or backwards, which stops at the requested number of live columns. `ReadCounts`
counts the keys that a read examined.

A name is hidden by a deletion of its row or super column with the same or a later timestamp. A super column exists
while one of its columns is live.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, NamedTuple, Protocol, TypeVar

from docstore.errors import CommandError
from docstore.kernel.columns.encoding import ColumnForm, is_live, take_columns
from docstore.widecolumn.model.cells import NOT_DELETED, Cell, Deletion, unpack_cell, unpack_deletion
from docstore.widecolumn.model.column_families import ColumnFamily
from docstore.widecolumn.model.comparators import Comparator
from docstore.widecolumn.model.errors import invalid_request
from docstore.widecolumn.model.keys import COLUMNS, ROW_DELETION, SUB_COLUMN, SUPER_DELETION, after_name, after_part

_TOMBSTONE_OVERWHELMING = 96  # OperationFailed
MAX_UNORDERED_NAMES = 100_000
_STEP = 256
"""The keys examined in one step."""
_NO_LIMIT = 1 << 62
_NOTHING = (b"", b"")


class Cells(Protocol):
    """Reads of the `wide` family in one state. Ranges are half-open."""

    def get(self, key: bytes) -> bytes | None: ...

    def items(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...


class Column(NamedTuple):
    """A live column with its record, as `docstore.widecolumn.model.cells` describes it."""

    name: bytes
    record: bytes

    @property
    def cell(self) -> Cell:
        return unpack_cell(self.record)


class SuperColumn(NamedTuple):
    """A super column with its live columns, of which there is at least one."""

    name: bytes
    columns: list[Column]


@dataclass(slots=True)
class ReadCounts:
    """Counters of the keys that reads examined. More tombstones than `limit` fail the read."""

    limit: int
    keys_examined: int = 0
    tombstones: int = 0

    def tombstone(self, count: int = 1) -> None:
        """Count dead columns."""
        self.tombstones += count
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


def check_range(comparator: Comparator, slice_range: SliceRange) -> None:
    """InvalidRequest for bounds in the wrong order and for a negative count."""
    if slice_range.count < 0:
        raise invalid_request("get_slice requires non-negative count")
    if slice_range.start and slice_range.finish:
        order = comparator.compare(slice_range.start, slice_range.finish)
        if order < 0 if slice_range.reversed else order > 0:
            raise invalid_request("range finish must come after start in the order of traversal")


Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work in steps, which yields regularly to its caller and returns its result."""


def finished(steps: Steps[Result]) -> Result:
    """Run the steps to their end at once and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class RowReader:
    """One row of a column family in one snapshot, at one second (`now`). Reads of more than one name run in steps."""

    def __init__(self, reader: Cells, family: ColumnFamily, prefix: bytes, now: int, counts: ReadCounts) -> None:
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
        if comparator.ordered:
            return self._at(base + comparator.encode(name), name, deleted)
        columns = finished(self.columns((name,), super_name))
        return columns[0] if columns else None

    def columns(self, predicate: Predicate, super_name: bytes | None = None) -> Steps[list[Column]]:
        """Return the columns of a Standard row, or of one super column, in the requested order."""
        base, comparator, deleted = self._level(super_name)
        if not comparator.ordered:
            every = yield from self._live(base, after_part(base), False, deleted, MAX_UNORDERED_NAMES + 1)
            named = [Column(comparator.decode(key, len(base))[0], record) for key, record in every]
            return _chosen(named, comparator, predicate)
        if isinstance(predicate, tuple):
            columns: list[Column] = []
            for position, name in enumerate(sorted(set(predicate), key=cmp_to_key(comparator.compare)), 1):
                column = self._at(base + comparator.encode(name), name, deleted)
                if column is not None:
                    columns.append(column)
                if not position % _STEP:
                    yield
            return columns
        lo, hi = _bounds(base, comparator, predicate)
        live_records = yield from self._live(lo, hi, predicate.reversed, deleted, predicate.count)
        decode, at = comparator.decode, len(base)
        return [Column(decode(key, at)[0], record) for key, record in live_records]

    def documents(
        self, predicate: Predicate, super_name: bytes | None, form: ColumnForm, check_size: Callable[[int], None]
    ) -> Steps[list[bytes]]:
        """Return columns as the documents of a reply. Names are in the form of keys.

        `form`: that of their comparator. `check_size` gets the bytes collected up to then and may raise.
        """
        base, comparator, deleted = self._level(super_name)
        counts, now = self._counts, self._now
        documents: list[bytes] = []
        size = 0
        if isinstance(predicate, tuple):
            # The order of keys is that of names.
            for position, key in enumerate(sorted({base + name for name in predicate}), 1):
                record = self._reader.get(key)
                counts.keys_examined += 1
                if record is not None:
                    if is_live(record, deleted.timestamp, now):
                        documents.append(form.document(key, len(base), record, now))
                        size += len(documents[-1])
                    else:
                        counts.tombstone()
                if not position % _STEP:
                    check_size(size)
                    yield
            check_size(size)
            return documents
        hidden = None if deleted is NOT_DELETED else deleted.timestamp
        lo, hi = _bounds(base, comparator, predicate)
        items = iter(self._reader.items(lo, hi, predicate.reversed)) if predicate.count else iter(())
        while True:
            before = len(documents)
            examined, dead, ended = take_columns(form, items, len(base), hidden, now, documents, predicate.count, _STEP)
            counts.keys_examined += examined
            if dead:
                counts.tombstone(dead)
            size += sum(map(len, documents[before:]))
            check_size(size)
            if ended:
                return documents
            yield

    def count_columns(self, super_name: bytes | None = None) -> Steps[int]:
        """Return how many live columns the row, or the super column, has."""
        base, _, deleted = self._level(super_name)
        columns = yield from self._live(base, after_part(base), False, deleted, _NO_LIMIT, with_content=False)
        return len(columns)

    def super_column(self, name: bytes) -> Steps[SuperColumn | None]:
        """One super column, whole, if it exists."""
        columns = yield from self.columns(SliceRange(count=_NO_LIMIT), name)
        return SuperColumn(name, columns) if columns else None

    def super_columns(self, predicate: Predicate) -> Steps[list[SuperColumn]]:
        """Super columns by name or range, each whole."""
        comparator = self._family.comparator
        base = self._prefix + COLUMNS
        if not comparator.ordered:
            every = yield from self._supers(base, after_part(base), False, MAX_UNORDERED_NAMES + 1)
            return _chosen(every, comparator, predicate)
        if isinstance(predicate, tuple):
            super_columns: list[SuperColumn] = []
            for name in sorted(set(predicate), key=cmp_to_key(comparator.compare)):
                column = yield from self.super_column(name)
                if column is not None:
                    super_columns.append(column)
                yield
            return super_columns
        lo, hi = _bounds(base, comparator, predicate)
        return (yield from self._supers(lo, hi, predicate.reversed, predicate.count))

    def count_super_columns(self) -> Steps[int]:
        base = self._prefix + COLUMNS
        super_columns = yield from self._supers(base, after_part(base), False, _NO_LIMIT)
        return len(super_columns)

    def _level(self, super_name: bytes | None) -> tuple[bytes, Comparator, Deletion]:
        """Return (prefix of the columns' paths, their comparator, the deletion that hides them)."""
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
        if not is_live(record, deleted.timestamp, self._now):
            self._counts.tombstone()
            return None
        return Column(name, record)

    def _live(
        self, lo: bytes, hi: bytes, backwards: bool, deleted: Deletion, limit: int, *, with_content: bool = True
    ) -> Steps[list[tuple[bytes, bytes]]]:
        """Return (key, record) of the live columns in the range of keys, at most `limit`; without `with_content` as
        many empty ones.
        """
        counts, now, hidden = self._counts, self._now, deleted.timestamp
        plain = deleted is NOT_DELETED
        live_items: list[tuple[bytes, bytes]] = []
        if not limit:
            return live_items
        before = counts.keys_examined
        examined = 0
        for item in self._reader.items(lo, hi, backwards):
            examined += 1
            record = item[1]
            if (plain and not record[0]) or is_live(record, hidden, now):
                live_items.append(item if with_content else _NOTHING)
                if len(live_items) == limit:
                    break
            else:
                counts.tombstone()
            if not examined % _STEP:
                counts.keys_examined = before + examined
                yield
        counts.keys_examined = before + examined
        return live_items

    def _supers(self, lo: bytes, hi: bytes, backwards: bool, limit: int) -> Steps[list[SuperColumn]]:
        """Yield super columns whose keys lie in the range, at most `limit`. The keys of one are adjacent."""
        at = len(self._prefix) + len(COLUMNS)
        decode = self._family.comparator.decode
        super_columns: list[SuperColumn] = []
        group: list[tuple[bytes, bytes]] = []
        standing = b""
        if not limit:
            return super_columns
        for examined, (key, record) in enumerate(self._reader.items(lo, hi, backwards), 1):
            self._counts.keys_examined += 1
            if not standing or not key.startswith(standing):
                super_column = self._assembled(group, standing, at)
                if super_column is not None:
                    super_columns.append(super_column)
                    if len(super_columns) == limit:
                        return super_columns
                standing = key[: decode(key, at)[1]]
                group = []
            group.append((key, record))
            if not examined % _STEP:
                yield
        super_column = self._assembled(group, standing, at)
        if super_column is not None:
            super_columns.append(super_column)
        return super_columns

    def _assembled(self, group: Sequence[tuple[bytes, bytes]], standing: bytes, at: int) -> SuperColumn | None:
        """Return the super column with these keys and records (`group`) if one of its columns is live."""
        subcomparator = self._family.subcomparator
        assert subcomparator is not None, "a Standard family has no super columns"
        mark = len(standing)
        deleted = self._deleted
        columns: list[tuple[bytes, bytes]] = []
        for key, record in group:
            if key[mark : mark + 1] == SUPER_DELETION:
                deleted = max(deleted, unpack_deletion(record))
            else:
                columns.append((key, record))
        live: list[Column] = []
        for key, record in sorted(columns):
            if is_live(record, deleted.timestamp, self._now):
                live.append(Column(subcomparator.decode(key, mark + 1)[0], record))
            else:
                self._counts.tombstone()
        if not live:
            return None
        if not subcomparator.ordered:
            live = _chosen(live, subcomparator, SliceRange(count=_NO_LIMIT))
        return SuperColumn(self._family.comparator.decode(standing, at)[0], live)


def _bounds(base: bytes, comparator: Comparator, slice_range: SliceRange) -> tuple[bytes, bytes]:
    """The half-open range of keys that a range of names stands for."""
    lower, upper = (
        (slice_range.finish, slice_range.start) if slice_range.reversed else (slice_range.start, slice_range.finish)
    )
    lo = base + comparator.encode(lower) if lower else base
    hi = after_name(base + comparator.encode(upper)) if upper else after_part(base)
    return lo, hi


def _chosen(named: list[Named], comparator: Comparator, slice_range: Predicate) -> list[Named]:
    """Return the requested names of a row that is not stored in its comparator's order. Of equal names the newest
    wins.

    InvalidRequest if there are too many of them.
    """
    if len(named) > MAX_UNORDERED_NAMES:
        raise invalid_request(f"a row sorted by {comparator.name} must not have more than {MAX_UNORDERED_NAMES} names")
    named = _one_of_each(sorted(named, key=_by_name(comparator)), comparator)
    if isinstance(slice_range, tuple):
        return [item for item in named if any(comparator.compare(item.name, name) == 0 for name in slice_range)]
    lower, upper = (
        (slice_range.finish, slice_range.start) if slice_range.reversed else (slice_range.start, slice_range.finish)
    )
    inside = [
        item
        for item in named
        if (not lower or comparator.compare(lower, item.name) <= 0)
        and (not upper or comparator.compare(item.name, upper) <= 0)
    ]
    if slice_range.reversed:
        inside.reverse()
    return inside[: slice_range.count]


def _one_of_each(named: list[Named], comparator: Comparator) -> list[Named]:
    """Return sorted items without duplicates: of equal names the newest."""
    distinct_items: list[Named] = []
    for item in named:
        if distinct_items and comparator.compare(distinct_items[-1].name, item.name) == 0:
            if _newest(item) > _newest(distinct_items[-1]):
                distinct_items[-1] = item
        else:
            distinct_items.append(item)
    return distinct_items


def _newest(item: Column | SuperColumn) -> int:
    columns = [item] if isinstance(item, Column) else item.columns
    return max(column.cell.timestamp for column in columns)


def _by_name(comparator: Comparator) -> Callable[[Column | SuperColumn], Any]:
    by_bytes = cmp_to_key(comparator.compare)
    return lambda item: by_bytes(item.name)
