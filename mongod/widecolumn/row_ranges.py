"""The rows of a column family in a range of the ring: how a migration reads, sends, stores and deletes them.

A range of places is a range of storage keys, and records are self-describing. The donor sends documents of oplog
entries (`docstore.widecolumn.node.rows`). First come merges of a snapshot, with the number that a row's statistics
count; then every later merge and removal, in order. The recipient thus gets the donor's state, tombstones included,
and collects what the donor collects meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docstore.bson import STRING, elements, get_field
from docstore.collection.changes import Commit
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.kernel.columns.encoding import ESTIMATE
from docstore.key_layout import family_end, family_prefix
from docstore.namespace import split_namespace
from docstore.node.node import DataNode
from docstore.query.value.values import text_of
from docstore.sharding.key import KeyRange
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.token_ring import SHARD_KEY_FIELD
from docstore.storage import Family, Reader
from docstore.widecolumn.model.keys import STATISTICS, row_end, split_row
from docstore.widecolumn.model.mutations import Entry
from docstore.widecolumn.model.requests import RowRange, rows_between
from docstore.widecolumn.node.keyspaces import MARK, wide_of
from docstore.widecolumn.node.read_state import WideCells
from docstore.widecolumn.node.record_pages import records
from docstore.widecolumn.node.rows import RowSize, merge_document, removal_document, remove_cells, row_size_of

_MERGED_RECORDS = 1000
_MERGED_BYTES = 256 * 1024
_PASSED_BY = 64
"""If only sizes are needed, rows with more columns are skipped by a seek."""
MAX_BYTES = 64 * 1024 * 1024


def partitioner_of(node: DataNode, collection: Collection) -> Partitioner:
    """Return the partitioner of the column family's keyspace."""
    keyspace = wide_of(node).keyspace(collection.database)
    assert keyspace is not None, f"{collection.ns} is in a keyspace"
    return keyspace.partitioner


def rows_of(partitioner: Partitioner, bounds: KeyRange) -> RowRange:
    """The rows of a chunk."""
    low, high = (bound.document()[SHARD_KEY_FIELD] for bound in (bounds.min, bounds.max))
    return rows_between(partitioner, low, high)


def _keys(collection: Collection, rows: RowRange) -> tuple[bytes, bytes]:
    base = family_prefix(collection.ident)
    return base + rows.start, base + rows.end if rows.end else family_end(collection.ident)


def row_documents(reader: Reader, collection: Collection, partitioner: Partitioner, rows: RowRange) -> Iterator[bytes]:
    """Yield the documents of oplog entries that recreate these rows, each for one row."""
    standing = b""
    entries: list[Entry] = []
    size = counted = 0
    for row_key, path, record in records(WideCells(reader), *_keys(collection, rows), partitioner):
        if entries and (row_key != standing or len(entries) >= _MERGED_RECORDS or size >= _MERGED_BYTES):
            yield merge_document(standing, entries)
            entries, size = [], 0
        if row_key != standing:
            if counted:
                yield removal_document(standing, (), counted)
            standing, counted = row_key, 0
        if record[0] & ESTIMATE:
            counted = row_size_of(record).rows
        else:
            entries.append(Entry(path, record))
            size += len(path) + len(record)
    if entries:
        yield merge_document(standing, entries)
    if counted:
        yield removal_document(standing, (), counted)


def row_sizes(
    reader: Reader, collection: Collection, partitioner: Partitioner, rows: RowRange
) -> Iterator[tuple[bytes, RowSize]]:
    """(row key, size) of these rows, in the order of the ring."""
    at, end = _keys(collection, rows)
    base = len(family_prefix(collection.ident))
    while at < end:
        start, at = at, end
        for key, record in reader.items(Family.WIDE, start, end):
            if not record[0] & ESTIMATE:
                continue
            mark = split_row(key, partitioner)[1]
            if key[mark:] == STATISTICS:
                size = row_size_of(record)
                yield key[base:mark], size
                if size.rows > _PASSED_BY:
                    at = row_end(key[:mark])
                    break


def delete_rows(
    unit: WriteUnitOfWork, collection: Collection, partitioner: Partitioner, rows: RowRange, limit: int
) -> int:
    """Remove at most `limit` records of these rows; how many there were."""
    doomed: dict[bytes, list[tuple[bytes, bytes]]] = {}
    count = size = 0
    for row_key, path, record in records(WideCells(unit.engine), *_keys(collection, rows), partitioner):
        if record[0] & ESTIMATE:
            continue
        doomed.setdefault(row_key, []).append((path, record))
        count += 1
        size += len(record)
        if count == limit or size >= _MERGED_BYTES:
            break
    for row_key, removed in doomed.items():
        remove_cells(unit, collection, row_key, removed)
    return count


class RowCapture:
    """The entries that concern rows of a range, in their order, from the beginning on until `take` gives them out.

    `overflowed` when more had to be kept than `max_bytes`, `redefined` when the column family was truncated or its
    definition changed: give up then.
    """

    def __init__(self, store: Store, namespace: str, rows: RowRange, *, max_bytes: int = MAX_BYTES) -> None:
        self._namespace = namespace
        self._database, self._name = split_namespace(namespace)
        self._rows = rows
        self._entries: list[bytes] = []
        self._bytes = 0
        self._max_bytes = max_bytes
        self.overflowed = False
        self.redefined = False
        self._unsubscribe: Callable[[], None] | None = store.subscribe(self._committed)

    def __len__(self) -> int:
        return len(self._entries)

    def stop(self) -> None:
        """Stop listening and discard the capture."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._entries.clear()

    def take(self, count: int, max_bytes: int) -> list[bytes]:
        """The oldest entries, at most `count` of them and hardly more than `max_bytes`; they leave the capture."""
        size = end = 0
        while end < min(count, len(self._entries)) and size < max_bytes:
            size += len(self._entries[end])
            end += 1
        chosen = self._entries[:end]
        del self._entries[:end]
        self._bytes -= size
        return chosen

    def _committed(self, commit: Commit) -> None:
        for change in commit.changes:
            if change.op == "m" and change.ns == self._namespace and change.after is not None:
                row = get_field(change.after, "r")
                assert row is not None, "an entry names its row"
                if row[1][5:] >= self._rows.start and (not self._rows.end or row[1][5:] < self._rows.end):
                    self._add(change.after)
            elif change.op == "c" and change.ns == f"{self._database}.$cmd" and change.after is not None:
                _, code, data = elements(change.after)[0]
                self.redefined = self.redefined or (code == STRING and text_of((code, data)) in (self._name, MARK))

    def _add(self, entry: bytes) -> None:
        if self.overflowed:
            return
        self._entries.append(entry)
        self._bytes += len(entry)
        if self._bytes > self._max_bytes:
            self.overflowed = True
            self._entries.clear()
