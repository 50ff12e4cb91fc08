"""The distinct values at a path of many documents: through arrays on the way, and one level of an array at the end."""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, OBJECT, document_stop, find, name_end, part, value_end
    from docstore.kernel.keys.encoding import append_key

_PER_VALUE: cython.Py_ssize_t = 32
"""Units of work charged for adding a value, besides its bytes."""


class ValueSet:
    """Values by their encoded key, so that equal ones of different types count once; the first of them is kept.

    `fold` makes values that count as equal the same. `size`: the bytes of the values, with a few more for each.
    """

    by_key: dict[bytes, Value]
    size: cython.Py_ssize_t
    _names: list[bytes]
    _positions: list[int]
    _fold: Callable[[Value], Value] | None
    _out: KeyWriter

    def __init__(self, path: str, fold: Callable[[Value], Value] | None = None) -> None:
        names = path.split(".")
        self.by_key = {}
        self.size = 0
        self._names = [name.encode() for name in names]
        # A number means a position in an array, never a field of its members.
        self._positions = [int(name) if name.isascii() and name.isdigit() else -1 for name in names]
        self._fold = fold
        self._out = KeyWriter()

    def add(self, documents: list[bytes]) -> None:
        """Add the values of documents."""
        raw: bytes
        for raw in documents:
            self._take(raw, OBJECT, 0, len(raw), 0)

    def _take(
        self, raw: bytes, code: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> None:
        """Add the values below the one at [at, end), at the names from `depth` on."""
        name: bytes
        offset: cython.Py_ssize_t
        if depth == len(self._names):
            if code == ARRAY:
                self._take_members(raw, at, end, depth, -1)
            else:
                self._add_value(raw, code, at, end)
        elif code == OBJECT:
            name = self._names[depth]
            offset = find(raw, at, end, name)
            if offset >= 0:
                at = offset + len(name) + 2
                self._take(raw, raw[offset], at, value_end(raw, raw[offset], at, end), depth + 1)
        elif code == ARRAY:
            self._take_members(raw, at, end, depth, self._positions[depth])

    def _take_members(
        self,
        raw: bytes,
        start: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        depth: cython.Py_ssize_t,
        position: cython.Py_ssize_t,
    ) -> None:
        """Add those of the members of an array, or of the one at a position in it (-1: of all)."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        number: cython.Py_ssize_t = 0
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            if depth == len(self._names):
                self._add_value(raw, raw[at], begin, end)
            elif position < 0:
                if raw[at] == OBJECT:
                    self._take(raw, OBJECT, begin, end, depth)
            elif number == position:
                self._take(raw, raw[at], begin, end, depth + 1)
                end = stop
            number += 1
            at = end

    def _add_value(self, raw: bytes, code: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        key: bytes
        value: Value | None = None
        folded: Value
        data: bytes
        # Other tasks may run here, and use the buffer: it is not in use.
        spend(_PER_VALUE + end - at)
        self._out.clear()
        if self._fold is None:
            append_key(self._out, code, raw, at, end)
        else:
            value = (code, part(raw, at, end))
            folded = self._fold(value)
            data = folded[1]
            append_key(self._out, folded[0], data, 0, len(data))
        key = self._out.contents()
        if key not in self.by_key:
            self.by_key[key] = (code, part(raw, at, end)) if value is None else value
            self.size += end - at + 8
