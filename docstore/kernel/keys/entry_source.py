"""Entries for an index build, gathered from documents in sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cython

from docstore.kernel.keys.gathered import GatheredEntries
from docstore.kernel.keys.pattern import KeyPattern

if not cython.compiled:
    from docstore.bson.walk import part

_RECORD_ID_BYTES: cython.Py_ssize_t = 8

LARGE_BYTES = 32 * 1024
"""Least bytes of a document whose keys may take more than a moment."""
_LARGE: cython.Py_ssize_t = LARGE_BYTES

Gather = Callable[[bytes, bytes, bytes, GatheredEntries], int]


class EntrySource:
    """Gathers the entries of documents under one index.

    `gather(prefix, document, record id, into)` gathers a document's entries and returns the bits of its arrays;
    smaller documents use `pattern`, if there is one. `array_bits` is the union of these bits.
    """

    prefix: bytes
    array_bits: int
    _pattern: KeyPattern | None
    _gather: Gather

    def __init__(self, prefix: bytes, gather: Gather, pattern: KeyPattern | None) -> None:
        self.prefix = prefix
        self.array_bits = 0
        self._pattern = pattern
        self._gather = gather

    @cython.ccall
    def gather(self, raw: bytes, rid: bytes, into: GatheredEntries) -> None:
        """Gather a document's entries. Errors: those of the index."""
        if self._pattern is not None and len(raw) <= _LARGE:
            array_bits = self._pattern.gather(self.prefix, raw, rid, into)
        else:
            array_bits = self._gather(self.prefix, raw, rid, into)
        if array_bits:
            self.array_bits |= array_bits


@cython.ccall
def gather_documents(
    records: Iterator[tuple[bytes, bytes]], sources: list[EntrySource], into: GatheredEntries, most: cython.Py_ssize_t
) -> bytes | None:
    """Gather the entries of the next documents: at most `most`, up to and including the first large one.

    `records` are (key of the record, document); the last bytes of the key are the record id. Return the last record id,
    None if there were no more documents.
    """
    rid: bytes | None = None
    record: tuple[bytes, bytes]
    key: bytes
    source: EntrySource
    for record in records:
        key = record[0]
        rid = part(key, len(key) - _RECORD_ID_BYTES, len(key))
        for source in sources:
            source.gather(record[1], rid, into)
        most -= 1
        if most == 0 or len(record[1]) > _LARGE:
            break
    return rid
