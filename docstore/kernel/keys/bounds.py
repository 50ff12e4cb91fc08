"""The ranges of an index's entries for the values of a filter.

Leading fields are fixed to a value each. One more field may be bounded by one or two values, or be one of a list. Keys
are those of `docstore.kernel.keys.encoding`. They are self-delimiting: a bound that is a prefix of keys sorts before
all of them, and `prefix_end` of it sorts after all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.encoding import INVERTED, encode_key
from docstore.kernel.keys.hashing import hashed_key
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import INT64, document_stop, name_end, value_end
    from docstore.kernel.keys.encoding import append_key

    ASCENDING = 0
    DESCENDING = 1
    HASHED = 2

_out: KeyWriter = KeyWriter()


def prefix_end(prefix: bytes) -> bytes:
    """Return the bound after every key that starts with the prefix, which is not all 0xff."""
    last: cython.Py_ssize_t = len(prefix) - 1
    while prefix[last] == 0xFF:
        last -= 1
    return prefix[:last] + bytes((prefix[last] + 1,))


def point_ranges(prefix: bytes, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the ranges of the entries that start with `prefix` and one of the keys, which are those of whole
    values.
    """
    key: bytes
    start: bytes
    ranges: list[tuple[bytes, bytes]] = []
    for key in keys:
        start = prefix + key
        ranges.append((start, prefix_end(start)))
    return ranges


class Side:
    """One end of the range of a field: the key of the value at `position`, or the bound after it. Without a value it is
    `cut`, the end of the range of values that compare with the other side's value.
    """

    position: cython.Py_ssize_t
    after: cython.bint
    cut: bytes

    def __init__(self, position: int, after: bool, cut: bytes) -> None:
        self.position = position
        self.after = after
        self.cut = cut

    def of(self, values: Sequence[Value]) -> bytes:
        """Return the bound in ascending keys."""
        if self.position < 0:
            return self.cut
        key: bytes = encode_key(values[self.position])
        return prefix_end(key) if self.after else key


class ScanBounds:
    """The range for filters of one form, in the index whose entries begin with `prefix`.

    `fixed`: for each leading field the position of its value and the making of its key: `ASCENDING`, `DESCENDING`, or
    `HASHED`, of its hash. `low` and `high` bound the next field, whose keys descend if `descending`; None: no further
    field is bounded. `listed`: the position of the array whose values the next field may have; -1: there is none.
    """

    prefix: bytes
    _positions: list[int]
    _makings: list[int]
    _low: Side | None
    _high: Side | None
    _turned: cython.bint
    listed: cython.Py_ssize_t

    def __init__(
        self,
        prefix: bytes,
        fixed: Sequence[tuple[int, int]],
        low: Side | None = None,
        high: Side | None = None,
        descending: bool = False,
        listed: int = -1,
    ) -> None:
        self.prefix = prefix
        self._positions = [position for position, _ in fixed]
        self._makings = [making for _, making in fixed]
        self._low = low
        self._high = high
        self._turned = descending
        self.listed = listed

    def bind(self, values: list[Value]) -> tuple[bytes, bytes] | None:
        """Return the half-open range of entries for these values; None if it is empty. Not with a list."""
        start: bytes = self._start(values)
        low: bytes
        high: bytes
        if self._low is None or self._high is None:
            return start, prefix_end(start)
        low = self._low.of(values)
        high = self._high.of(values)
        if low >= high:
            return None
        if self._turned:
            low, high = prefix_end(high.translate(INVERTED)), prefix_end(low.translate(INVERTED))
        return start + low, start + high

    def bind_list(self, values: list[Value]) -> list[tuple[bytes, bytes]]:
        """Return the ranges of entries for these values, one for each in the list, in their order."""
        start: bytes = self._start(values)
        raw: bytes = values[self.listed][1]
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        keys: set[bytes] = set()
        while at < stop:
            named = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], named, stop)
            _out.clear()
            _out.put_bytes(start)
            append_key(_out, raw[at], raw, named, end)
            if self._turned:
                _out.invert(len(start))
            keys.add(_out.contents())
            at = end
        return [(key, prefix_end(key)) for key in sorted(keys)]

    @cython.cfunc
    def _start(self, values: list[Value]) -> bytes:
        """Return the prefix of the entries whose leading fields have their fixed values."""
        field: cython.Py_ssize_t
        at: cython.Py_ssize_t
        value: tuple[int, bytes]
        _out.clear()
        _out.put_bytes(self.prefix)
        for field in range(len(self._positions)):
            at = _out.size
            value = values[self._positions[field]]
            if self._makings[field] == HASHED:
                value = INT64, hashed_key(value).to_bytes(8, "little", signed=True)
            append_key(_out, value[0], value[1], 0, len(value[1]))
            if self._makings[field] == DESCENDING:
                _out.invert(at)
        return _out.contents()
