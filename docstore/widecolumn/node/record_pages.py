"""Stored records and row keys in the order of keys, read in slices."""

from __future__ import annotations

from collections.abc import Iterator

from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import family_end, family_prefix
from docstore.sharding.partitioners import Partitioner
from docstore.widecolumn.model.executor import RecordPage, Stored
from docstore.widecolumn.model.keys import COLUMNS, ROW_DELETION, STATISTICS, row_end, split_row
from docstore.widecolumn.model.slices import Cells, Steps
from docstore.widecolumn.node.keyspaces import FamilyStore
from docstore.widecolumn.node.read_state import WideCells, is_owned

MAX_BYTES = 4 * 1024 * 1024
"""The bytes of records at which a page ends, for any requested number."""
_STEP = 256
_NO_LIMIT = 1 << 62


def read_page(
    cells: Cells, prefix: bytes, start: bytes, end: bytes, *, reverse: bool, limit: int, head: bool = False
) -> Steps[RecordPage]:
    """At most `limit` records of a row (its whole `prefix`) with paths in `[start, end)`; with `head` also all that
    stand before its columns.
    """
    if head and start == COLUMNS and not reverse:
        return (yield from _whole(cells, prefix, end, limit))
    before = yield from _taken(cells, prefix, (ROW_DELETION, COLUMNS), False, _NO_LIMIT) if head else _nothing()
    page = yield from _taken(cells, prefix, (start, end), reverse, limit)
    return page._replace(head=tuple(before.entries))


def _whole(cells: Cells, prefix: bytes, end: bytes, limit: int) -> Steps[RecordPage]:
    """Read a row from its beginning, in one scan."""
    at = len(prefix)
    before: list[Stored] = []
    entries: list[Stored] = []
    size = 0
    for position, (key, record) in enumerate(cells.items(prefix + ROW_DELETION, prefix + end), 1):
        path = key[at:]
        if path < COLUMNS:
            if path != STATISTICS:
                before.append((path, record))
        elif len(entries) == limit or size > MAX_BYTES:
            return RecordPage(entries, True, tuple(before))
        else:
            entries.append((path, record))
            size += len(path) + len(record)
        if not position % _STEP:
            yield
    return RecordPage(entries, False, tuple(before))


def _nothing() -> Steps[RecordPage]:
    return RecordPage([], False)
    yield


def _taken(cells: Cells, prefix: bytes, bounds: tuple[bytes, bytes], reverse: bool, limit: int) -> Steps[RecordPage]:
    at = len(prefix)
    most = MAX_BYTES if limit < _NO_LIMIT else _NO_LIMIT
    entries: list[Stored] = []
    size = 0
    start, end = bounds
    for position, (key, record) in enumerate(cells.items(prefix + start, prefix + end, reverse), 1):
        path = key[at:]
        if path == STATISTICS:
            continue
        if len(entries) == limit or size > most:
            return RecordPage(entries, True)
        entries.append((path, record))
        size += len(path) + len(record)
        if not position % _STEP:
            yield
    return RecordPage(entries, False)


def same_page(first: RecordPage, second: RecordPage) -> bool:
    """True if both pages have the same records."""
    return (first.entries, first.more, list(first.head)) == (second.entries, second.more, list(second.head))


def find_row_keys(
    found: FamilyStore, cells: WideCells, owned: Predicate | None, start: bytes, end: bytes, limit: int
) -> Steps[list[bytes]]:
    """At most `limit` rows from `start` to before `end` (to the end of the ring when that is empty) that are owned.

    A row is found by one seek, however large the one before it is.
    """
    partitioner = found.keyspace.partitioner
    base = family_prefix(found.collection.ident)
    stop = base + end if end else family_end(found.collection.ident)
    at = base + start
    row_keys: list[bytes] = []
    while len(row_keys) < limit and at < stop:
        key = next(iter(cells.keys(at, stop)), None)
        if key is None:
            break
        mark = split_row(key, partitioner)[1]
        row_key = key[len(base) : mark]
        if is_owned(found, row_key, owned):
            row_keys.append(row_key)
        at = row_end(key[:mark])
        yield
    return row_keys


def records(cells: Cells, start: bytes, end: bytes, partitioner: Partitioner) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(row key, path, record) of every record in a range of keys."""
    at = len(family_prefix(0))
    standing = b"\xff"
    mark = 0
    for key, record in cells.items(start, end):
        if not key.startswith(standing):
            mark = split_row(key, partitioner)[1]
            standing = key[:mark]
        yield standing[at:], key[mark:], record
