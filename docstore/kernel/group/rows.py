"""Rows of documents that are sorted before they are grouped: the values that groups need of each.

A row is its sort value, followed by the values for accumulators, each its type byte and its bytes; a missing value is a
zero byte. Values that are the same for all rows, or are in a row already, are omitted. So a row is much smaller than
its document, and is read without a search for fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cython

from docstore.bson.walk import Value
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import NULL, part, value_end
    from docstore.kernel.group.sources import ConstantSource
    from docstore.kernel.keys.encoding import append_key

    _STORED = 0
    _CONSTANT = 1
    _OF_KEY = 2
    _AS_BEFORE = 3


class Rows:
    """The format of rows: the sources of their sort value (null if missing) and of the values for accumulators.

    `key_of` makes the sort keys of rows if these are not those of `docstore.kernel.keys.encoding`; `check` is called
    with every sort value.
    """

    _key: Source
    _sources: list[Source]
    _kinds: list[int]
    _key_of: Callable[[Value], bytes] | None
    _check: Callable[[Value], None] | None
    _value: ValueRef
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
        self._value = ValueRef()
        self._out = KeyWriter()

    def _kind(self, position: int) -> int:
        """Return the way in which the value for an accumulator is stored."""
        source = self._sources[position]
        if isinstance(source, ConstantSource):
            return _CONSTANT
        if source.same_as(self._key):
            return _OF_KEY
        if position > 0 and source.same_as(self._sources[position - 1]):
            return _AS_BEFORE
        return _STORED

    def pairs(self, documents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (sort key, row) of each document. Errors: those of `check` and of the sources."""
        document: bytes
        value: ValueRef = self._value
        key: bytes
        pairs: list[tuple[bytes, bytes]] = []
        for document in documents:
            self._key.locate(document, None, value)
            key = self._sort_key(value)
            pairs.append((key, self._row(document, value)))
        return pairs

    @cython.cfunc
    def _sort_key(self, value: ValueRef) -> bytes:
        sort_value: Value
        out: KeyWriter = self._out
        if self._check is not None or self._key_of is not None:
            sort_value = value.value() if value.code != 0 else (NULL, b"")
            if self._check is not None:
                self._check(sort_value)
            if self._key_of is not None:
                return self._key_of(sort_value)
        out.clear()
        append_key(out, value.code if value.code != 0 else NULL, value.raw, value.at, value.end)
        return out.contents()

    @cython.cfunc
    def _row(self, document: bytes, value: ValueRef) -> bytes:
        """Return the row of a document with this sort value."""
        out: KeyWriter = self._out
        position: cython.Py_ssize_t
        source: Source
        out.clear()
        self._append(value)
        for position in range(len(self._sources)):
            if self._kinds[position] == _STORED:
                source = self._sources[position]
                source.locate(document, None, value)
                self._append(value)
        return out.contents()

    def _append(self, value: ValueRef) -> cython.int:
        self._out.put(value.code)
        if value.code != 0:
            self._out.put_part(value.raw, value.at, value.end)
        return 0


class RowGroup:
    """A group of sorted rows under construction. A state is the kernel's or an accumulator of the caller's.

    `count`: the number of its rows; `first` and `last`: its first and last rows, empty before there is one.
    """

    count: cython.Py_ssize_t
    first: bytes
    last: bytes
    _last_key: bytes
    _rows: Rows
    _states: list[Any]
    _value: ValueRef
    _key: ValueRef

    def __init__(self, rows: Rows, states: Sequence[Any]) -> None:
        self.count = 0
        self.first = b""
        self.last = b""
        self._last_key = b""
        self._rows = rows
        self._states = list(states)
        self._value = ValueRef()
        self._key = ValueRef()

    @cython.ccall
    def take(self, pairs: list[tuple[bytes, bytes]], at: cython.Py_ssize_t, target: cython.Py_ssize_t) -> int:
        """Add pairs from `at` on until there are `target`, and all that sort equal to the last one. Return the end
        position.
        """
        count: cython.Py_ssize_t = len(pairs)
        key: bytes
        while at < count:
            key = cython.cast(bytes, pairs[at][0])
            if self.count >= target and key != self._last_key:
                break
            self._take(key, cython.cast(bytes, pairs[at][1]))
            at += 1
        return at

    @cython.ccall
    def take_below(self, pairs: list[tuple[bytes, bytes]], at: cython.Py_ssize_t, limit: bytes) -> int:
        """Add pairs from `at` on whose keys are below a limit. Return the end position."""
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
        value: ValueRef = self._value
        state: State
        source: Source
        position: cython.Py_ssize_t
        kind: cython.int
        end: cython.Py_ssize_t = _locate_value(row, 0, self._key)
        if self.count == 0:
            self.first = row
        self.count += 1
        self.last = row
        self._last_key = key
        for position in range(len(self._states)):
            kind = self._rows._kinds[position]
            if kind == _STORED:
                end = _locate_value(row, end, value)
            elif kind == _OF_KEY:
                _locate_value(row, 0, value)
            elif kind == _CONSTANT:
                source = self._rows._sources[position]
                source.locate(row, None, value)
            if isinstance(self._states[position], State):
                state = self._states[position]
                state.add(value)
            else:
                self._states[position].add(None if value.code == 0 else value.value())
        return 0


def _locate_value(row: bytes, at: cython.Py_ssize_t, result: ValueRef) -> cython.Py_ssize_t:
    """Locate the value at an offset of a row; return the offset after it."""
    result.code = row[at]
    result.raw = row
    result.at = at + 1
    result.end = at + 1 if result.code == 0 else value_end(row, result.code, at + 1, len(row))
    return result.end


def sorted_value(row: bytes) -> Value:
    """Return the sort value of a row; a missing one is null."""
    if row[0] == 0:
        return NULL, b""
    return row[0], part(row, 1, value_end(row, row[0], 1, len(row)))
