"""Values as a collation compares them: every string in them, at any depth, in its sort key's stead.

What the keys of strings are the library of collations says. Where a collation has the rules of the root locale, the
keys of strings of printable ASCII characters follow from one table, and are written here: the weights of all
characters on the first level, then, as the strength asks for, how many characters there are, which have nothing to
tell on the second level, and on the third which of them are capitals. Both ways give the same bytes.

Source: Unicode Technical Standard 10 for the levels; ICU's `collationkeys` for how runs of common weights are written.
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
    """The weight of what is common, and the least that a run of them is written as."""
    _SECOND_RUN = 0x21
    _SECOND_MIDDLE = 0x25
    """The most common weights of the second level that one byte stands for, and that byte."""
    _THIRD_RUN = 0x61
    _THIRD_MIDDLE = 0x65
    _THIRD_HIGH = 0xC5
    """The same of the third level, and the byte for one common weight before a capital."""

AsciiWeight = tuple[bytes, int]
"""The weight of a character on the first level, one or two bytes, or none for a character that has no place in the
table; and that on the third level, where 0 stands for the common one and others are above `_THIRD_HIGH`.
"""
_KEPT = 4096
"""How many keys of other strings are remembered."""


class TextFolding:
    """What a collation makes of values: call it with one. One thread at a time.

    `string_key`: the data of a string value to that of its key. `weights`: those of each character below 128; empty
    where keys never follow from them. `strength` is then 1, 2 or 3.
    """

    _string_key: Callable[[bytes], bytes]
    _strength: cython.int
    _first: bytes
    _first_rest: bytes
    _third: bytes
    _kept: dict[bytes, bytes]
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
        self._kept = {}
        self._out = KeyWriter()

    def __call__(self, value: Value) -> Value:
        """The folded value. Most values hold no strings and come back as they are."""
        code: cython.int = value[0]
        data: bytes = value[1]
        if code in (STRING, OBJECT, ARRAY):
            return value[0], self.folded(code, data, 0, len(data))
        return value

    def folded(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
        """The data of the string, document or array [at, end), folded."""
        data: bytes
        if code == STRING:
            if len(self._first) != 0 and self._write(raw, at + 4, end - 1):
                return self._out.taken()
            return self._remembered(part(raw, at, end))
        data = part(raw, at, end)
        if code == ARRAY:
            return array_from([self(value) for value in values(data)])
        return document_from([(name, *self((inner, held))) for name, inner, held in elements(data)])

    def _remembered(self, data: bytes) -> bytes:
        found: bytes | None = self._kept.get(data)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._string_key(data)
            self._kept[data] = found
        return found

    def _write(self, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Write the key of the text [begin, end), with its length in front; False where the table does not do."""
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
