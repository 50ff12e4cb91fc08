"""Filters index entries by a condition on their covered values, before their documents are read.

Invariant: no entry is dropped whose document satisfies the condition. Opaque entries pass. Every 256th rejected entry
passes, too, so that the reader can check a clock. So the condition must still be tested on each document.
"""

from __future__ import annotations

from collections.abc import Iterator

import cython

from docstore.kernel.limits import MAX_SKIPPED_ENTRIES
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.covered import Covering
from docstore.kernel.scan.fetch import Examined

OPAQUE = b"\xff"
_ID_BYTES: cython.Py_ssize_t = 8


class Sifted:
    """An iterator over the entries of `items`, (key, value) pairs, that pass: it yields the part that ends in the
    record id.

    `covering` makes documents of entries; `is_id`: their values end in the record ids, else their keys. Dropped entries
    are counted in `examined`.
    """

    _items: Iterator[tuple[bytes, bytes]]
    _covering: Covering
    _predicate: Predicate
    _is_id: cython.bint
    _examined: Examined
    _left_out: cython.int

    def __init__(
        self,
        items: Iterator[tuple[bytes, bytes]],
        covering: Covering,
        predicate: Predicate,
        is_id: bool,
        examined: Examined,
    ) -> None:
        self._items = items
        self._covering = covering
        self._predicate = predicate
        self._is_id = is_id
        self._examined = examined
        self._left_out = 0

    def __iter__(self) -> Sifted:
        return self

    def __next__(self) -> bytes:
        pair: tuple[bytes, bytes]
        entry: bytes
        marks: bytes
        raw: bytes
        size: cython.Py_ssize_t
        while True:
            pair = next(self._items)
            entry = pair[0]
            marks = pair[1]
            if self._is_id:
                size = len(marks) - _ID_BYTES
                entry, marks = marks, marks[:size]
            if marks == OPAQUE:
                return entry
            raw = self._covering.document_of(pair[0], marks)
            if self._predicate.test(raw, 0, len(raw)):
                return entry
            if self._left_out == MAX_SKIPPED_ENTRIES:
                self._left_out = 0
                return entry
            self._left_out += 1
            self._examined.keys += 1
