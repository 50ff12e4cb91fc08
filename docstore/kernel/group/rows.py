"""Documents that are sorted before they are grouped: what groups need of each, as a row, and what is made of rows.

A row is the value that it is sorted by, and behind it the values that accumulators take in, each its type byte and its
bytes; of a missing value there is a zero byte alone. What is the same for all rows, or stands in a row already, is left
out. So it is much smaller than its document, and is read without looking for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cython

from docstore.bson.walk import Value
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import ConstantSource, Place, Source
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import NULL, part, value_end
    from docstore.kernel.keys.encoding import append_key

    _STORED = 0
    _CONSTANT = 1
    _OF_KEY = 2
    _AS_BEFORE = 3


class Rows:
    """The form of rows: the sources of what they are sorted by (where it is missing, as null) and of what accumulators
    take in.

    `key_of` makes the keys that rows sort by where these are not those of `docstore.kernel.keys.encoding`; `check`
    is shown every value that is sorted by.
    """

    _key: Source
    _sources: list[Source]
    _kinds: list[int]
    _key_of: Callable[[Value], bytes] | None
    _check: Callable[[Value], None] | None
    _found: Place
    _out: KeyWriter

    def __init__(
        self,
        key: Source,
        sources: Sequence[Source],
        key_of: Callable[[Value], bytes] | None = None,
        check: Callable[[Value], None] | None = None,
    ) -> None:
        self._key = key
        self._sources = list(sources)
        self._kinds = [self._kind(position) for position in range(len(self._sources))]
        self._key_of = key_of
        self._check = check
        self._found = Place()
        self._out = KeyWriter()

    def _kind(self, position: int) -> int:
        """How the value for an accumulator is had from a row."""
        source = self._sources[position]
        if isinstance(source, ConstantSource):
            return _CONSTANT
        if source.same_as(self._key):
            return _OF_KEY
        if position > 0 and source.same_as(self._sources[position - 1]):
            return _AS_BEFORE
        return _STORED

    def pairs(self, documents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """(the key to sort by, the row) of each document. Errors: those of `check` and of the sources."""
        document: bytes
        found: Place = self._found
        key: bytes
        pairs: list[tuple[bytes, bytes]] = []
        for document in documents:
            self._key.locate(document, None, found)
            key = self._sort_key(found)
            pairs.append((key, self._row(document, found)))
        return pairs

    def _sort_key(self, found: Place) -> bytes:
        value: Value
        out: KeyWriter = self._out
        if self._check is not None or self._key_of is not None:
            value = found.value() if found.code != 0 else (NULL, b"")
            if self._check is not None:
                self._check(value)
            if self._key_of is not None:
                return self._key_of(value)
        out.clear()
        append_key(out, found.code if found.code != 0 else NULL, found.raw, found.at, found.end)
        return out.taken()

    def _row(self, document: bytes, found: Place) -> bytes:
        """The row of a document of which the value that it is sorted by is at a place."""
        out: KeyWriter = self._out
        position: cython.Py_ssize_t
        source: Source
        out.clear()
        self._append(found)
        for position in range(len(self._sources)):
            if self._kinds[position] == _STORED:
                source = self._sources[position]
                source.locate(document, None, found)
                self._append(found)
        return out.taken()

    def _append(self, found: Place) -> cython.int:
        self._out.put(found.code)
        if found.code != 0:
            self._out.put_part(found.raw, found.at, found.end)
        return 0


class RowGroup:
    """A group of sorted rows in the making. A state is the kernel's or an accumulator of the caller's.

    `taken`: how many rows are in it; `first` and `last`: the rows that came first and last, empty before there is one.
    """

    taken: cython.Py_ssize_t
    first: bytes
    last: bytes
    _last_key: bytes
    _rows: Rows
    _states: list[Any]
    _found: Place
    _key: Place

    def __init__(self, rows: Rows, states: Sequence[Any]) -> None:
        self.taken = 0
        self.first = b""
        self.last = b""
        self._last_key = b""
        self._rows = rows
        self._states = list(states)
        self._found = Place()
        self._key = Place()

    def take(self, pairs: list[tuple[bytes, bytes]], at: cython.Py_ssize_t, wanted: cython.Py_ssize_t) -> int:
        """Take pairs in from `at` on until there are so many, and all that sort as the last one; where that ended."""
        count: cython.Py_ssize_t = len(pairs)
        key: bytes
        while at < count:
            key = cython.cast(bytes, pairs[at][0])
            if self.taken >= wanted and key != self._last_key:
                break
            self._take(key, cython.cast(bytes, pairs[at][1]))
            at += 1
        return at

    def take_below(self, pairs: list[tuple[bytes, bytes]], at: cython.Py_ssize_t, limit: bytes) -> int:
        """Take pairs in from `at` on whose keys are below a limit; where that ended."""
        count: cython.Py_ssize_t = len(pairs)
        key: bytes
        while at < count:
            key = cython.cast(bytes, pairs[at][0])
            if key >= limit:
                break
            self._take(key, cython.cast(bytes, pairs[at][1]))
            at += 1
        return at

    def _take(self, key: bytes, row: bytes) -> cython.int:
        found: Place = self._found
        state: State
        source: Source
        position: cython.Py_ssize_t
        kind: cython.int
        end: cython.Py_ssize_t = _place(row, 0, self._key)
        if self.taken == 0:
            self.first = row
        self.taken += 1
        self.last = row
        self._last_key = key
        for position in range(len(self._states)):
            kind = self._rows._kinds[position]
            if kind == _STORED:
                end = _place(row, end, found)
            elif kind == _OF_KEY:
                _place(row, 0, found)
            elif kind == _CONSTANT:
                source = self._rows._sources[position]
                source.locate(row, None, found)
            if isinstance(self._states[position], State):
                state = self._states[position]
                state.add(found)
            else:
                self._states[position].add(None if found.code == 0 else found.value())
        return 0


def _place(row: bytes, at: cython.Py_ssize_t, found: Place) -> cython.Py_ssize_t:
    """Let it be the value at an offset of a row; where that ends."""
    found.code = row[at]
    found.raw = row
    found.at = at + 1
    found.end = at + 1 if found.code == 0 else value_end(row, found.code, at + 1, len(row))
    return found.end


def sorted_value(row: bytes) -> Value:
    """The value that a row is sorted by; a missing one is null."""
    if row[0] == 0:
        return NULL, b""
    return row[0], part(row, 1, value_end(row, row[0], 1, len(row)))
