"""Cells of the sphere in C: those that cover a circle, as ranges of keys, and how far from a point those of keys are.

`docstore.query.geo.sphere_cells` says what cells are, `docstore.query.geo.cell_keys` what their keys are. Invariants: a
covering holds all of its circle; no point of a cell is nearer than its bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappush
from typing import Any

import cython

from docstore.bson.walk import BINARY
from docstore.kernel.geometry.points import Vector
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.scan.index_bounds import field_end

if not cython.compiled:
    from math import asin, sqrt, tan

_LEVELS = 30
_LEVEL_BITS = 5
_QUARTER: cython.double = 3.141592653589793 / 4.0
_PI: cython.double = 3.141592653589793
_SLACK: cython.double = 1e-14
_ROUNDING: cython.double = 1e-12
"""Radians by which a bound is lower than it was calculated, for what rounding there is in it and in distances."""

_KEY = encode_key((BINARY, b"\x09\0\0\0\0" + bytes(9)))
_KEY_BYTES = len(_KEY)
_NUMBER_AT = _KEY_BYTES - 9

_OUTSIDE = 0
_MEETS = 1
_INSIDE = 2

_Cell = tuple[int, int, int, int]


class CellCircle:
    """The circle around a cell: its middle, and the radians to its farthest corner and a little more."""

    x: cython.double
    y: cython.double
    z: cython.double
    radius: cython.double

    def __init__(self) -> None:
        self.x = self.y = self.z = self.radius = 0.0

    def put_around(self, face: cython.int, column: cython.longlong, row: cython.longlong, level: cython.int) -> None:
        """Make it the circle around the cell."""
        width: cython.double = 2.0 / (cython.cast(cython.longlong, 1) << level)
        left: cython.double = column * width - 1.0
        low: cython.double = row * width - 1.0
        u: cython.double = tan((left + width / 2.0) * _QUARTER)
        w: cython.double = tan((low + width / 2.0) * _QUARTER)
        length: cython.double = 1.0 / sqrt(1.0 + u * u + w * w)
        depth: cython.double = length
        across: cython.double = u * length
        along: cython.double = w * length
        left_slope: cython.double = tan(left * _QUARTER)
        right_slope: cython.double = tan((left + width) * _QUARTER)
        low_slope: cython.double = tan(low * _QUARTER)
        high_slope: cython.double = tan((low + width) * _QUARTER)
        farthest: cython.double = max(
            _chord(depth, across, along, left_slope, low_slope),
            _chord(depth, across, along, left_slope, high_slope),
            _chord(depth, across, along, right_slope, low_slope),
            _chord(depth, across, along, right_slope, high_slope),
        )
        self.radius = 2.0 * asin(sqrt(farthest) / 2.0) + _SLACK
        if face >= 3:
            depth = -depth
            across = -across
            along = -along
            face -= 3
        if face == 0:
            self.x, self.y, self.z = depth, across, along
        elif face == 1:
            self.x, self.y, self.z = along, depth, across
        else:
            self.x, self.y, self.z = across, along, depth


def _chord(
    depth: cython.double, across: cython.double, along: cython.double, u: cython.double, w: cython.double
) -> cython.double:
    """The square of the straight way from a point of a face to one at two slopes of it."""
    length: cython.double = 1.0 / sqrt(1.0 + u * u + w * w)
    a: cython.double = depth - length
    b: cython.double = across - u * length
    c: cython.double = along - w * length
    return a * a + b * b + c * c


class _Cap:
    """A circle on the sphere that cells are compared with."""

    _centre: Vector
    _radius: cython.double
    _around: CellCircle

    def __init__(self, centre: tuple[float, float], radius: float) -> None:
        self._centre = Vector(centre[0], centre[1])
        self._radius = radius
        self._around = CellCircle()

    def judge(self, face: cython.int, column: cython.longlong, row: cython.longlong, level: cython.int) -> cython.int:
        apart: cython.double
        around: CellCircle = self._around
        around.put_around(face, column, row, level)
        apart = self._centre.angle(around.x, around.y, around.z)
        if apart + around.radius <= self._radius:
            return _INSIDE
        return _MEETS if apart - around.radius <= self._radius + _SLACK else _OUTSIDE


def cap_cells(centre: tuple[float, float], radius: float, most: cython.Py_ssize_t) -> list[_Cell]:
    """About `most` cells that hold all of the circle."""
    cap: _Cap = _Cap(centre, radius)
    found: list[_Cell] = []
    waiting: deque[_Cell] = deque()
    cell: tuple[int, int, int, int]
    face: cython.int
    level: cython.int
    column: cython.longlong
    row: cython.longlong
    part: cython.int
    kind: cython.int
    for face in range(6):
        kind = cap.judge(face, 0, 0, 0)
        if kind == _INSIDE:
            found.append((face, 0, 0, 0))
        elif kind == _MEETS:
            waiting.append((face, 0, 0, 0))
    while waiting:
        cell = waiting.popleft()
        face, column, row, level = cell[0], cell[1], cell[2], cell[3]
        if level == _LEVELS or len(found) + len(waiting) + 4 > most:
            found.append(cell)
            continue
        level += 1
        for part in range(4):
            kind = cap.judge(face, 2 * column + part // 2, 2 * row + part % 2, level)
            if kind == _INSIDE:
                found.append((face, 2 * column + part // 2, 2 * row + part % 2, level))
            elif kind == _MEETS:
                waiting.append((face, 2 * column + part // 2, 2 * row + part % 2, level))
    return found


def cap_ranges(
    centre: tuple[float, float], radius: float, most: cython.Py_ssize_t, coarsest: cython.int, finest: cython.int
) -> list[tuple[bytes, bytes]]:
    """The sorted ranges of keys of geometries that meet the circle, in an index with cells of these levels."""
    cell: tuple[int, int, int, int]
    pair: tuple[bytes, bytes]
    last: tuple[bytes, bytes]
    ranges: list[tuple[bytes, bytes]] = []
    merged: list[tuple[bytes, bytes]] = []
    around: set[int] = set()
    buffer: bytearray = bytearray(_KEY)
    face: cython.ulonglong
    column: cython.ulonglong
    row: cython.ulonglong
    place: cython.ulonglong
    mask: cython.ulonglong
    name: cython.ulonglong
    level: cython.int
    above: cython.int
    low: bytes
    for cell in cap_cells(centre, radius, most):
        face, column, row, level = cell[0], cell[1], cell[2], cell[3]
        place = face << 60 | _spread(column << (_LEVELS - level)) << 1 | _spread(row << (_LEVELS - level))
        low = _key(buffer, place, 0)
        mask = cython.cast(cython.ulonglong, 1) << 2 * (_LEVELS - level)
        ranges.append((low, _behind_key(buffer, place | (mask - 1), 31)))
        for above in range(level - 1, coarsest - 1, -1):
            mask = cython.cast(cython.ulonglong, 1) << 2 * (_LEVELS - above)
            place = place & ~(mask - 1)
            name = place << 1 | mask
            if name in around:
                break
            around.add(name)
            if above <= finest:
                ranges.append((_key(buffer, place, above), _behind_key(buffer, place, above)))
    ranges.sort()
    for pair in ranges:
        if merged:
            last = merged[len(merged) - 1]
            if pair[0] <= last[1]:
                if pair[1] > last[1]:
                    merged[len(merged) - 1] = (last[0], pair[1])
                continue
        merged.append(pair)
    return merged


def _spread(number: cython.ulonglong) -> cython.ulonglong:
    """The bits of a number of 32 bits with a zero in front of each."""
    number = (number | number << 16) & 0x0000FFFF0000FFFF
    number = (number | number << 8) & 0x00FF00FF00FF00FF
    number = (number | number << 4) & 0x0F0F0F0F0F0F0F0F
    number = (number | number << 2) & 0x3333333333333333
    return (number | number << 1) & 0x5555555555555555


def _gathered(number: cython.ulonglong) -> cython.ulonglong:
    """What `_spread` has spread; every other bit is passed over."""
    number = number & 0x5555555555555555
    number = (number | number >> 1) & 0x3333333333333333
    number = (number | number >> 2) & 0x0F0F0F0F0F0F0F0F
    number = (number | number >> 4) & 0x00FF00FF00FF00FF
    number = (number | number >> 8) & 0x0000FFFF0000FFFF
    return (number | number >> 16) & 0x00000000FFFFFFFF


def _write(buffer: bytearray, place: cython.ulonglong, level: cython.int) -> None:
    step: cython.int
    number: cython.ulonglong = (place << _LEVEL_BITS | level) & 0xFFFFFFFFFFFFFFFF
    buffer[_NUMBER_AT] = place >> (64 - _LEVEL_BITS)
    for step in range(8):
        buffer[_NUMBER_AT + 8 - step] = number & 0xFF
        number >>= 8


def _key(buffer: bytearray, place: cython.ulonglong, level: cython.int) -> bytes:
    _write(buffer, place, level)
    return _start_of(buffer, _KEY_BYTES)


def _behind_key(buffer: bytearray, place: cython.ulonglong, level: cython.int) -> bytes:
    """The cut behind a key."""
    size: cython.Py_ssize_t = _KEY_BYTES
    _write(buffer, place, level)
    while buffer[size - 1] == 0xFF:
        size -= 1
    buffer[size - 1] += 1
    return _start_of(buffer, size)


def _start_of(buffer: bytearray, size: cython.Py_ssize_t) -> bytes:
    if cython.compiled:
        return cython.cast(cython.p_char, buffer)[:size]  # type: ignore[index, return-value]
    return bytes(buffer[:size])


class Nearby:
    """Entries of an index by how near what they lead to can be, in the order of a heap.

    `skipped` bytes begin each entry, then come the keys of fields, inverted where `masks` are 0xff, then that of a
    cell. `waiting` is a heap of (bound, 0, number, entry) with the numbers in the order of the entries; those beyond
    `greatest`, or nearer than `least`, are left out. Distances are in `unit` for a radian.
    """

    waiting: list[Any]
    _known: set[bytes]
    _number: cython.Py_ssize_t
    _centre: Vector
    _around: CellCircle
    _unit: cython.double
    _least: cython.double
    _greatest: cython.double
    _skipped: cython.Py_ssize_t
    _masks: list[int]
    _low: cython.double
    _high: cython.double

    def __init__(
        self,
        centre: tuple[float, float],
        unit: float,
        least: float,
        greatest: float,
        skipped: int,
        masks: Sequence[int],
    ) -> None:
        self.waiting = []
        self._known = set()
        self._number = 0
        self._centre = Vector(centre[0], centre[1])
        self._around = CellCircle()
        self._unit = unit
        self._least = least
        self._greatest = greatest
        self._skipped = skipped
        self._masks = list(masks)
        self._low = self._high = 0.0

    def gather(self, entries: Iterator[bytes], most: cython.Py_ssize_t) -> int:
        """Take in the entries that are new, until `most` have been looked at; how many have been."""
        entry: bytes
        count: cython.Py_ssize_t = 0
        for entry in entries:
            count += 1
            if entry not in self._known:
                self._known.add(entry)
                self._measure(entry)
                if self._low <= self._greatest and self._high >= self._least:
                    self._number += 1
                    heappush(self.waiting, (self._low, 0, self._number, entry))
            if count == most:
                break
        return count

    def reach(self, entry: bytes) -> float:
        """The distance within which at least a part lies of what the entry leads to."""
        self._measure(entry)
        return self._high

    def _measure(self, entry: bytes) -> None:
        """Find the bounds of the distance of what the entry leads to: all of the sphere where it has no cell."""
        at: cython.Py_ssize_t = self._skipped
        step: cython.Py_ssize_t
        top: cython.ulonglong
        number: cython.ulonglong = 0
        level: cython.int
        apart: cython.double
        for step in range(len(self._masks)):
            at = field_end(entry, at, self._masks[step])
        self._low = 0.0
        self._high = _PI * self._unit
        if len(entry) < at + _KEY_BYTES:
            return
        for step in range(_NUMBER_AT):
            if entry[at + step] != _KEY[step]:
                return
        at += _NUMBER_AT
        top = entry[at]
        for step in range(1, 9):
            number = number << 8 | entry[at + step]
        level = number & 31
        number = number >> _LEVEL_BITS | top << (64 - _LEVEL_BITS)
        if level > _LEVELS:
            return
        self._around.put_around(
            cython.cast(cython.int, number >> 60),
            _gathered(number >> 1 & 0x0555555555555555) >> (_LEVELS - level),
            _gathered(number & 0x0555555555555555) >> (_LEVELS - level),
            level,
        )
        apart = self._centre.angle(self._around.x, self._around.y, self._around.z)
        self._low = max(apart - self._around.radius - _ROUNDING, 0.0) * self._unit
        self._high = (apart + self._around.radius + _ROUNDING) * self._unit
