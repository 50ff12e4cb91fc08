"""Undo records as bytes (`docstore.collection.oplog.undo`).

Nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable

import cython

from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import same_end, same_front
    from docstore.kernel.keys.writer import take_contents, writer

REPLACED = 64
"""Added to a family in an undo record: it holds only the part in which the previous document differed."""
_WORTHWHILE: cython.Py_ssize_t = 64
"""Least unchanged bytes of a document for which an undo record holds only the difference."""


def undo_record(counted: tuple[int, int, int], parts: list[bytes]) -> bytes:
    """Return a record made of its parts, which come from `undo_key` and the like. `counted`: ident, count change and
    size change of the collection.
    """
    ident: cython.ulonglong = counted[0]
    count: cython.longlong = counted[1]
    size: cython.longlong = counted[2]
    piece: bytes
    out: KeyWriter = writer()
    out.put_little(ident, 4)
    out.put_little(cython.cast(cython.ulonglong, count), 4)
    out.put_little(cython.cast(cython.ulonglong, size), 8)
    for piece in parts:
        out.put_bytes(piece)
    return take_contents(out)


@cython.ccall
def undo_key(family: cython.int, key: bytes, previous: bytes | None) -> bytes:
    """Return the part that undoes a write of one key."""
    out: KeyWriter = writer()
    put_undo(out, family, key, previous)
    return take_contents(out)


@cython.ccall
def undo_document(
    records: cython.int,
    record_key: bytes,
    before: bytes | None,
    after: bytes | None,
    indexes: cython.int,
    removed: dict[bytes, bytes],
    new_keys: Iterable[bytes],
) -> bytes:
    """Return the part that undoes the change of a record from `before` to `after` (None: no document), and of its index
    entries. `removed` are deleted entries with their values, `new_keys` new ones. `records`, `indexes`: the families.
    """
    key: bytes
    value: bytes
    out: KeyWriter = writer()
    _put_undo_change(out, records, record_key, before, after)
    for key, value in removed.items():
        put_undo(out, indexes, key, value)
    for key in new_keys:
        put_undo(out, indexes, key, None)
    return take_contents(out)


@cython.ccall
def undo_absent(family: cython.int, keys: Iterable[bytes]) -> bytes:
    """Return the part that deletes keys which had no value."""
    key: bytes
    out: KeyWriter = writer()
    for key in keys:
        put_undo(out, family, key, None)
    return take_contents(out)


@cython.ccall
def undo_marked(family: cython.int, entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the part that restores (key, previous value)."""
    entry: tuple[bytes, bytes]
    out: KeyWriter = writer()
    for entry in entries:
        put_undo(out, family, entry[0], entry[1])
    return take_contents(out)


class LogBatch:
    """The part of a write batch that logging fills: `entries` and `undo` records, by timestamp.

    `families` are those of records, indexes and sessions' rows.
    """

    entries: dict[bytes, bytes | None]
    undo: dict[bytes, bytes | None]
    records: cython.int
    indexes: cython.int
    sessions: cython.int

    def __init__(
        self, entries: dict[bytes, bytes | None], undo: dict[bytes, bytes | None], families: tuple[int, int, int]
    ) -> None:
        self.entries = entries
        self.undo = undo
        self.records, self.indexes, self.sessions = families


class DocumentChanges:
    """Changed documents of one collection, in parallel lists.

    - `operations` are the fields `o` of the entries; `named` the fields `o2`, None if they contain only the `_id`.
    - `documents` are the post-images; None if the documents were deleted, and then the entries have no `o2`.
    - `before` are the pre-images; None if the documents were inserted.
    - `new_keys` are the new keys in indexes, `removed` the deleted ones with their values.
    - `stmt_ids` are the statements, if a session wrote the documents.
    """

    operations: list[bytes]
    record_keys: list[bytes]
    documents: list[bytes] | None
    before: list[bytes] | None
    new_keys: list[list[bytes]] | None
    removed: list[dict[bytes, bytes]] | None
    named: list[bytes] | None
    stmt_ids: list[int] | None

    def __init__(
        self,
        operations: list[bytes],
        record_keys: list[bytes],
        documents: list[bytes] | None = None,
        before: list[bytes] | None = None,
        new_keys: list[list[bytes]] | None = None,
        removed: list[dict[bytes, bytes]] | None = None,
        named: list[bytes] | None = None,
        stmt_ids: list[int] | None = None,
    ) -> None:
        self.operations = operations
        self.record_keys = record_keys
        self.documents = documents
        self.before = before
        self.new_keys = new_keys
        self.removed = removed
        self.named = named
        self.stmt_ids = stmt_ids

    def put_undo(
        self, out: KeyWriter, position: cython.Py_ssize_t, log: LogBatch, ident: cython.ulonglong
    ) -> cython.int:
        """Write the beginning of an undo record: the parts of one document, and of its index entries."""
        after: bytes | None = None if self.documents is None else self.documents[position]
        before: bytes | None = None if self.before is None else self.before[position]
        _put_counted(out, ident, after, before)
        _put_undo_change(out, log.records, self.record_keys[position], before, after)
        if self.removed is not None:
            _put_removed(out, log.indexes, self.removed[position])
        if self.new_keys is not None:
            _put_new_keys(out, log.indexes, self.new_keys[position])
        return 0


def _put_counted(out: KeyWriter, ident: cython.ulonglong, document: bytes | None, before: bytes | None) -> cython.int:
    """Write the change of a collection's counters by a document."""
    size: cython.Py_ssize_t = (0 if document is None else len(document)) - (0 if before is None else len(before))
    count: cython.longlong = (0 if document is None else 1) - (0 if before is None else 1)
    out.put_little(ident, 4)
    out.put_little(cython.cast(cython.ulonglong, count), 4)
    return out.put_little(cython.cast(cython.ulonglong, size), 8)


def _put_new_keys(out: KeyWriter, family: cython.int, keys: list[bytes]) -> cython.int:
    key: bytes
    for key in keys:
        put_undo(out, family, key, None)
    return 0


def _put_removed(out: KeyWriter, family: cython.int, entries: dict[bytes, bytes]) -> cython.int:
    key: bytes
    value: bytes
    for key, value in entries.items():
        put_undo(out, family, key, value)
    return 0


def put_undo(out: KeyWriter, family: cython.int, key: bytes, previous: bytes | None) -> cython.int:
    out.put(family)
    out.put_little(len(key), 4)
    if previous is None:
        out.put_little(0xFFFFFFFF, 4)
        return out.put_bytes(key)
    out.put_little(len(previous), 4)
    out.put_bytes(key)
    return out.put_bytes(previous)


def _put_undo_change(
    out: KeyWriter, family: cython.int, key: bytes, before: bytes | None, after: bytes | None
) -> cython.int:
    """Write the part that undoes the replacement of a document by the bytes that differ, without the length in front,
    which follows from them.
    """
    front: cython.Py_ssize_t
    end: cython.Py_ssize_t
    most: cython.Py_ssize_t
    if before is None or after is None:
        return put_undo(out, family, key, before)
    most = min(len(before), len(after)) - 4
    front = same_front(before, after, 4, most)
    end = same_end(before, after, most - front)
    if front + end < _WORTHWHILE:
        return put_undo(out, family, key, before)
    out.put(family + REPLACED)
    out.put_little(len(key), 4)
    out.put_little(len(before) - 4 - front - end, 4)
    out.put_bytes(key)
    out.put_little(front, 4)
    out.put_little(end, 4)
    return out.put_part(before, 4 + front, len(before) - end)
