"""Pages of stored records, read in slices."""

from __future__ import annotations

from docstore.storage import Family
from docstore.storage.engine import Reader
from docstore.widecolumn.model.executor import RecordPage, Stored
from docstore.widecolumn.model.keys import COLUMNS, ROW_DELETION, STATISTICS
from docstore.widecolumn.model.slices import Steps

MAX_BYTES = 4 * 1024 * 1024
"""The bytes of records at which a page ends, for any requested number."""
_STEP = 256
_NO_LIMIT = 1 << 62


def read_page(
    reader: Reader, prefix: bytes, start: bytes, end: bytes, *, reverse: bool, limit: int, head: bool = False
) -> Steps[RecordPage]:
    """At most `limit` records of a row (its whole `prefix`) with paths in `[start, end)`; with `head` also all that
    stand before its columns.
    """
    if head and start == COLUMNS and not reverse:
        return (yield from _whole(reader, prefix, end, limit))
    before = yield from _taken(reader, prefix, (ROW_DELETION, COLUMNS), False, _NO_LIMIT) if head else _nothing()
    page = yield from _taken(reader, prefix, (start, end), reverse, limit)
    return page._replace(head=tuple(before.entries))


def _whole(reader: Reader, prefix: bytes, end: bytes, limit: int) -> Steps[RecordPage]:
    """Read a row from its beginning, in one scan."""
    at = len(prefix)
    before: list[Stored] = []
    entries: list[Stored] = []
    size = 0
    for position, (key, record) in enumerate(reader.items(Family.WIDE, prefix + ROW_DELETION, prefix + end), 1):
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


def _taken(reader: Reader, prefix: bytes, bounds: tuple[bytes, bytes], reverse: bool, limit: int) -> Steps[RecordPage]:
    at = len(prefix)
    most = MAX_BYTES if limit < _NO_LIMIT else _NO_LIMIT
    entries: list[Stored] = []
    size = 0
    start, end = bounds
    for position, (key, record) in enumerate(reader.items(Family.WIDE, prefix + start, prefix + end, reverse), 1):
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
