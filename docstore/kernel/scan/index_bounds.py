"""Bounds checks of index scans: yields the index entries all of whose fields lie within bounds.

A compound key within the bounds of one field may be outside those of the next. The scan skips to the next key that can
be within bounds: it reads on if the gap is small, else it seeks. Invariants:

- The scan yields exactly the entries within the bounds, in their order.
- An entry counts as examined if it is the first one at or after a sought key, whether the scan read on or seeked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cython

from docstore.kernel.scan.fetch import Examined
from docstore.kernel.scan.watched import Sought

if not cython.compiled:
    from docstore.bson.order import (
        CLASS_ARRAY,
        CLASS_BINARY,
        CLASS_BOOL,
        CLASS_CODE,
        CLASS_CODE_WITH_SCOPE,
        CLASS_DATE,
        CLASS_DB_POINTER,
        CLASS_MAX_KEY,
        CLASS_MIN_KEY,
        CLASS_NULL,
        CLASS_OBJECT,
        CLASS_OBJECT_ID,
        CLASS_REGEX,
        CLASS_STRING,
        CLASS_TIMESTAMP,
        CLASS_UNDEFINED,
    )

    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _POSITIVE = 0x38
    _TRUE = 0x69

ABOVE = b"\xfe"
"""Above every key of a value, in either direction."""

_PASSED_BY_READING: cython.Py_ssize_t = 24
_SOUGHT_BLINDLY: cython.Py_ssize_t = 16
_TRIED_AGAIN: cython.Py_ssize_t = 4
"""If reading on failed and the iterator can seek, the scan seeks immediately `_SOUGHT_BLINDLY` times. Then it reads on
over up to `_TRIED_AGAIN` entries again.
"""


class FieldBounds:
    """The bounds of an index's leading fields.

    `prefix` begins every key of the index, `end` is after them all. `ranges` are, for each field, the sorted half-open
    ranges (lowest, highest) of its key bytes; `descending` are the fields inverted in the index.
    """

    prefix: bytes
    end: bytes
    ranges: Sequence[Sequence[tuple[bytes, bytes]]]
    descending: Sequence[bool]

    def __init__(
        self,
        prefix: bytes,
        end: bytes,
        ranges: Sequence[Sequence[tuple[bytes, bytes]]],
        descending: Sequence[bool],
    ) -> None:
        self.prefix = prefix
        self.end = end
        self.ranges = ranges
        self.descending = descending


class Bounded:
    """An iterator over the entries, keys or (key, value) `pairs`, that lie within the bounds of every field.

    - `opened(start, end)` iterates over the entries between two keys in the direction of the scan.
    - `sought`, an iterator that can seek forwards, is used instead if there is one.
    - With `once` only the first entry for each key of that many leading fields is yielded.
    - `begin` is the key from which entries are requested.
    """

    _opened: Callable[[bytes, bytes], Iterator[Any]]
    _source: Iterator[Any]
    _end: bytes
    _start: bytes
    _skipped: cython.Py_ssize_t
    _lows: list[list[bytes]]
    _highs: list[list[bytes]]
    _masks: list[int]
    _reverse: cython.bint
    _pairs: cython.bint
    _once: cython.Py_ssize_t
    _target: bytes | None
    _done: cython.bint
    _examined: Examined
    _sought: Sought | None
    _most_passed: cython.Py_ssize_t
    _blindly: cython.Py_ssize_t

    def __init__(
        self,
        opened: Callable[[bytes, bytes], Iterator[Any]],
        bounds: FieldBounds,
        reverse: bool,
        pairs: bool,
        examined: Examined,
        once: int = 0,
        sought: Sought | None = None,
        begin: bytes | None = None,
    ) -> None:
        self._sought = sought
        self._most_passed = _PASSED_BY_READING
        self._blindly = 0
        self._once = once
        self._opened = opened
        self._skipped = len(bounds.prefix)
        self._start = bounds.prefix
        self._end = bounds.end
        self._lows = [[lo for lo, _ in field] for field in bounds.ranges]
        self._highs = [[hi for _, hi in field] for field in bounds.ranges]
        self._masks = [0xFF if is_descending else 0 for is_descending in bounds.descending]
        self._reverse = reverse
        self._pairs = pairs
        self._examined = examined
        self._target = None
        self._done = not all(self._lows)
        self._source = iter(())
        if not self._done:
            self._open_at(begin or bounds.prefix + (self._last_of(0) if reverse else self._first_of(0)))

    def __iter__(self) -> Bounded:
        return self

    def __next__(self) -> Any:
        item: object
        key: bytes
        skipped: cython.Py_ssize_t = 0
        while not self._done:
            if self._most_passed == 0 and self._target is not None:
                self._open_at(self._target)
            item = next(self._source, None)
            if item is None:
                self._done = True
                break
            key = item[0] if self._pairs else item
            if self._target is not None:
                if (key >= self._target) if self._reverse else (key < self._target):
                    skipped += 1
                    if skipped >= self._most_passed:
                        self._open_at(self._target)
                        skipped = 0
                    continue
                if skipped:
                    self._most_passed = min(2 * self._most_passed, _PASSED_BY_READING)
                    skipped = 0
                self._target = None
            if self._is_within(key):
                if self._once:
                    self._pass_over_same(key)
                return item
            skipped = 0
            self._examined.keys += 1
            if self._target is None:
                self._done = True
                self._examined.ended_by_key = True
            else:
                self._examined.seeks += 1
        raise StopIteration

    @cython.cfunc
    def _open_at(self, key: bytes) -> None:
        if self._sought is not None:
            # A seek costs as little as reading a few entries; a gap that was wide once is likely to be so again.
            if self._most_passed == 0:
                self._blindly += 1
            self._most_passed //= 4
            if self._blindly == _SOUGHT_BLINDLY:
                self._blindly = 0
                self._most_passed = _TRIED_AGAIN
            self._sought.seek(key)
            self._source = self._sought
            return
        self._source = self._opened(self._start, key) if self._reverse else self._opened(key, self._end)

    def _is_within(self, key: bytes) -> cython.bint:
        """True if the key is within all bounds. If not, `_target` is the next key that can be; None if there
        is none.
        """
        at: cython.Py_ssize_t = self._skipped
        end: cython.Py_ssize_t
        field: cython.Py_ssize_t
        range_index: cython.Py_ssize_t
        piece: bytes
        lows: list[bytes]
        highs: list[bytes]
        for field in range(len(self._lows)):
            end = field_end(key, at, self._masks[field])
            assert end > at, "an index entry holds whole keys"
            piece = key[at:end]
            lows = self._lows[field]
            highs = self._highs[field]
            range_index = 0 if len(lows) == 1 else bisect_right(lows, piece) - 1
            if range_index >= 0 and piece >= lows[range_index] and piece < highs[range_index]:
                at = end
                continue
            if range_index >= 0 and piece < lows[range_index]:
                range_index -= 1
            self._seek(key[:at], field, range_index)
            return False
        return True

    @cython.cfunc
    def _pass_over_same(self, key: bytes) -> None:
        """Set the target after all entries with the leading fields of this one."""
        at: cython.Py_ssize_t = self._skipped
        field: cython.Py_ssize_t
        for field in range(self._once):
            if field == self._once - 1 and key[at] ^ self._masks[field] in (CLASS_NULL, CLASS_UNDEFINED):
                # Missing fields have the key of null, empty arrays that of undefined: such entries may have different
                # values.
                return
            at = field_end(key, at, self._masks[field])
        self._target = key[:at] if self._reverse else key[:at] + ABOVE

    def _seek(self, before: bytes, field: cython.Py_ssize_t, range_index: cython.Py_ssize_t) -> None:
        """Set the target to the field's next range; `range_index` is the last range that begins below its value."""
        if self._reverse:
            if range_index >= 0:
                self._target = before + self._last_from(field, range_index)
            elif field:
                self._target = before
        elif range_index + 1 < len(self._lows[field]):
            self._target = before + self._first_from(field, range_index + 1)
        elif field:
            self._target = before + ABOVE

    def _first_of(self, field: cython.Py_ssize_t) -> bytes:
        """Return the bound below the lowest keys within the bounds from a field on."""
        return self._first_from(field, 0) if field < len(self._lows) else b""

    def _first_from(self, field: cython.Py_ssize_t, range_index: cython.Py_ssize_t) -> bytes:
        low: bytes = self._lows[field][range_index]
        if field_end(low, 0, self._masks[field]) != len(low):
            return low
        return low + self._first_of(field + 1)

    def _last_of(self, field: cython.Py_ssize_t) -> bytes:
        """Return the bound above the highest keys within the bounds from a field on."""
        return self._last_from(field, len(self._lows[field]) - 1) if field < len(self._lows) else ABOVE

    def _last_from(self, field: cython.Py_ssize_t, range_index: cython.Py_ssize_t) -> bytes:
        low: bytes = self._lows[field][range_index]
        if _is_one_value(low, self._highs[field][range_index]) and field_end(low, 0, self._masks[field]) == len(low):
            return low + self._last_of(field + 1)
        return self._highs[field][range_index]


def _is_one_value(low: bytes, high: bytes) -> bool:
    """True if the range contains only keys that begin with `low`."""
    prefix: bytes = low.rstrip(b"\xff")
    last: cython.Py_ssize_t = len(prefix) - 1
    return last >= 0 and high == prefix[:last] + bytes((prefix[last] + 1,))


@cython.ccall
@cython.exceptval(check=False)
def field_end(key: bytes, at: cython.Py_ssize_t, mask: cython.int) -> cython.Py_ssize_t:
    """Return the end of the value's key that begins at `at`; -1 if it is incomplete. `mask`, 0 or 0xff, inverts its
    bytes.
    """
    limit: cython.Py_ssize_t = len(key)
    kind: cython.int
    if at >= limit:
        return -1
    kind = key[at] ^ mask
    at += 1
    if kind in (_POSITIVE, _NEGATIVE):
        return _number_end(key, at, mask if kind == _POSITIVE else mask ^ 0xFF)
    if kind in (CLASS_STRING, CLASS_CODE):
        return _text_end(key, at, mask)
    if kind == CLASS_OBJECT_ID:
        return at + 12 if at + 12 <= limit else -1
    if kind in (CLASS_DATE, CLASS_TIMESTAMP):
        return at + 8 if at + 8 <= limit else -1
    if kind in (_NAN, _ZERO, CLASS_BOOL, _TRUE, CLASS_NULL, CLASS_UNDEFINED, CLASS_MIN_KEY, CLASS_MAX_KEY):
        return at
    return _rare_end(key, at, mask, kind)


@cython.exceptval(check=False)
def _rare_end(key: bytes, at: cython.Py_ssize_t, mask: cython.int, kind: cython.int) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = 0
    step: cython.int
    if kind == CLASS_REGEX:
        at = _text_end(key, at, mask)
        return _text_end(key, at, mask) if at > 0 else -1
    if kind in (CLASS_BINARY, CLASS_DB_POINTER):
        if at + 4 > len(key):
            return -1
        for step in range(4):
            size = size << 8 | (key[at + step] ^ mask)
        at += 4 + size + (1 if kind == CLASS_BINARY else 0)
        return at if at <= len(key) else -1
    if kind == CLASS_ARRAY:
        return _members_end(key, at, mask, False)
    if kind == CLASS_OBJECT:
        return _members_end(key, at, mask, True)
    if kind == CLASS_CODE_WITH_SCOPE:
        at = _text_end(key, at, mask)
        return _members_end(key, at, mask, True) if at > 0 else -1
    return -1


@cython.exceptval(check=False)
def _members_end(key: bytes, at: cython.Py_ssize_t, mask: cython.int, named: cython.bint) -> cython.Py_ssize_t:
    """Return the end of members' keys, which a byte 00 terminates; `named` ones have a class and a name before them."""
    while 0 < at < len(key):
        if key[at] ^ mask == 0:
            return at + 1
        if named:
            at = _text_end(key, at + 1, mask)
            if at < 0:
                return -1
        at = field_end(key, at, mask)
    return -1


@cython.exceptval(check=False)
def _text_end(key: bytes, at: cython.Py_ssize_t, mask: cython.int) -> cython.Py_ssize_t:
    limit: cython.Py_ssize_t = len(key)
    byte: cython.int
    while at < limit:
        byte = key[at] ^ mask
        at += 1
        if byte == 0:
            return at
        if byte == 1:
            at += 1
    return -1


@cython.exceptval(check=False)
def _number_end(key: bytes, at: cython.Py_ssize_t, mask: cython.int) -> cython.Py_ssize_t:
    """Return the end of a magnitude: eight bytes, then 00, or 01, two bytes and a text of digits."""
    at += 8
    if at >= len(key):
        return -1
    if key[at] ^ mask == 0:
        return at + 1
    return _text_end(key, at + 3, mask)
