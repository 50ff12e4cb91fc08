"""Folding by a collation: replaces every string in a value, at any depth, by its sort key.

ICU computes the sort keys of strings. If a collation has the rules of the root locale, one table determines the keys of
printable ASCII strings, and they are written here:

- first level: the weights of all characters;
- second level, if the strength includes it: the number of characters, which all have the common weight;
- third level, if the strength includes it: the positions of capitals.

Invariant: both ways give the same bytes. Source: Unicode Technical Standard 10 for the levels; ICU's `collationkeys`
for the encoding of runs of common weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import Value, elements, values
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import ARRAY, OBJECT, STRING, part

    _COMMON = 0x05
    """The common weight, and the least byte of a run of common weights."""
    _SECOND_RUN = 0x21
    _SECOND_MIDDLE = 0x25
    """The most common weights of the second level in one byte, and that byte."""
    _THIRD_RUN = 0x61
    _THIRD_MIDDLE = 0x65
    _THIRD_HIGH = 0xC5
    """The same of the third level, and the byte for one common weight before a capital."""

AsciiWeight = tuple[bytes, int]
"""(weight on the first level, weight on the third level) of a character. The first has one or two bytes, or none for a
character that the table does not support. In the third, 0 is the common weight; others are above `_THIRD_HIGH`.
"""
_KEPT = 4096
"""Most keys of other strings in the cache."""


class TextFolding:
    """Folds values by a collation: call it with a value. Not thread-safe.

    `string_key` maps the data of a string value to that of its key. `weights` has an item for each character below 128;
    it is empty if the table does not apply. `strength` is then 1, 2 or 3.
    """

    _string_key: Callable[[bytes], bytes]
    _strength: cython.int
    _first: bytes
    _first_rest: bytes
    _third: bytes
    _cache: dict[bytes, bytes]
    _out: KeyWriter

    def __init__(
        self, string_key: Callable[[bytes], bytes], weights: Sequence[AsciiWeight] = (), strength: int = 1
    ) -> None:
        assert len(weights) in (0, 128)
        self._string_key = string_key
        self._strength = strength
        self._first = bytes([first[0] if first else 0 for first, _ in weights])
        self._first_rest = bytes([first[1] if len(first) > 1 else 0 for first, _ in weights])
        self._third = bytes([third for _, third in weights])
        self._cache = {}
        self._out = KeyWriter()

    def __call__(self, value: Value) -> Value:
        """Return the folded value. Most values hold no strings and are returned unchanged."""
        code: cython.int = value[0]
        data: bytes = value[1]
        if code in (STRING, OBJECT, ARRAY):
            return value[0], self.folded(code, data, 0, len(data))
        return value

    def folded(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
        """Return the folded data of the string, document or array at [at, end)."""
        data: bytes
        if code == STRING:
            if len(self._first) != 0 and self._write(raw, at + 4, end - 1):
                return self._out.contents()
            return self._remembered(part(raw, at, end))
        data = part(raw, at, end)
        if code == ARRAY:
            return array_from([self(value) for value in values(data)])
        return document_from([(name, *self((inner, content))) for name, inner, content in elements(data)])

    @cython.cfunc
    def _remembered(self, data: bytes) -> bytes:
        key: bytes | None = self._cache.get(data)
        if key is None:
            if len(self._cache) >= _KEPT:
                self._cache.clear()
            key = self._string_key(data)
            self._cache[data] = key
        return key

    def _write(self, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Write the key of the text [begin, end) with its length in front; False if the table does not support the
        text.
        """
        at: cython.Py_ssize_t = begin
        byte: cython.int
        out: KeyWriter = self._out
        out.clear()
        out.put_little(0, 4)
        while at < end:
            byte = raw[at]
            if byte >= 0x80 or self._first[byte] == 0:
                return False
            out.put(self._first[byte])
            if self._first_rest[byte] != 0:
                out.put(self._first_rest[byte])
            at += 1
        if self._strength >= 2:
            out.put(1)
            self._write_common(end - begin, _SECOND_RUN, _SECOND_MIDDLE)
        if self._strength >= 3:
            out.put(1)
            self._write_third(raw, begin, end)
        out.put(0)
        out.set_little(0, out.size - 4, 4)
        return True

    def _write_common(self, count: cython.Py_ssize_t, run: cython.int, middle: cython.int) -> cython.int:
        """Write a run of common weights at the end of a level."""
        if count > 0:
            count -= 1
            while count >= run:
                self._out.put(middle)
                count -= run
            self._out.put(_COMMON + count)
        return 0

    def _write_third(self, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        at: cython.Py_ssize_t
        weight: cython.int
        common: cython.Py_ssize_t = 0
        for at in range(begin, end):
            weight = self._third[raw[at]]
            if weight == 0:
                common += 1
                continue
            if common > 0:
                common -= 1
                while common >= _THIRD_RUN:
                    self._out.put(_THIRD_MIDDLE)
                    common -= _THIRD_RUN
                self._out.put(_THIRD_HIGH - common)
                common = 0
            self._out.put(weight)
        return self._write_common(common, _THIRD_RUN, _THIRD_MIDDLE)
