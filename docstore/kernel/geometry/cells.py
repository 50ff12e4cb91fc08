"""Cells of the sphere: their keys, coverings of circles as ranges of keys, and their distances from a point.

`docstore.query.geo.sphere_cells` defines the cells, `docstore.query.geo.cell_keys` their keys. Invariants:

- A covering contains all of its circle.
- No point of a cell is nearer than its bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import cython

from docstore.bson.walk import BINARY, encoded_name
from docstore.kernel.geometry.nearby import CellDistances
from docstore.kernel.geometry.points import PlainPoint, Vector
from docstore.kernel.keys.encoding import encode_key

if not cython.compiled:
    from math import asin, atan, sqrt, tan

    from docstore.kernel.geometry.curve import cut_behind, gathered, merged, number_at, put_number, spread, start_of
    from docstore.kernel.match.path_predicates import stands_at

_LEVELS: cython.int = 30
_LEVEL_BITS: cython.int = 5
_ALL: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
_OF_FACE: cython.ulonglong = 0x0FFFFFFFFFFFFFFF
_QUARTER: cython.double = 3.141592653589793 / 4.0
_PI: cython.double = 3.141592653589793
_SLACK: cython.double = 1e-14
_FLAT_LEVEL: cython.int = 24
_HALF_DIAGONAL: cython.double = 0.82
"""The half diagonal of a cell whose sides are 1, rounded up: the cells in the corners of a face have the longest. Cells
of the level `_FLAT_LEVEL` are 60 cm wide; the excess of a circle at that size does not matter.
"""
_AREA: cython.double = 4.0 * 3.141592653589793 / 6.0 / (1 << 60)
"""The area of a cell of the finest level, in radians squared, if all had one size."""
_ROUNDING: cython.double = 1e-12
"""Radians subtracted from a calculated bound, for rounding errors in it and in distances."""

_KEY: bytes = encode_key((BINARY, b"\x09\0\0\0\0" + bytes(9)))
_KEY_BYTES: cython.Py_ssize_t = len(_KEY)
_NUMBER_AT: cython.Py_ssize_t = _KEY_BYTES - 9

_OUTSIDE: cython.int = 0
_MEETS: cython.int = 1
_INSIDE: cython.int = 2

_Cell = tuple[int, int, int, int]


class CellCircle:
    """The circle around a cell: its middle, and the radians to its farthest corner, rounded up."""

    x: cython.double
    y: cython.double
    z: cython.double
    radius: cython.double

    def __init__(self) -> None:
        self.x = self.y = self.z = self.radius = 0.0

    def put_around(self, face: cython.int, column: cython.longlong, row: cython.longlong, level: cython.int) -> None:
        """Make it the circle around the cell."""
        width: cython.double = 2.0 / (cython.cast(cython.longlong, 1) << level)
        left_edge: cython.double = column * width - 1.0
        low: cython.double = row * width - 1.0
        u: cython.double = tan((left_edge + width / 2.0) * _QUARTER)
        w: cython.double = tan((low + width / 2.0) * _QUARTER)
        length: cython.double = 1.0 / sqrt(1.0 + u * u + w * w)
        depth: cython.double = length
        across: cython.double = u * length
        along: cython.double = w * length
        left_slope: cython.double
        right_slope: cython.double
        low_slope: cython.double
        high_slope: cython.double
        farthest: cython.double
        if level >= _FLAT_LEVEL:
            self.radius = width * _QUARTER * _HALF_DIAGONAL
        else:
            left_slope = tan(left_edge * _QUARTER)
            right_slope = tan((left_edge + width) * _QUARTER)
            low_slope = tan(low * _QUARTER)
            high_slope = tan((low + width) * _QUARTER)
            farthest = max(
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


@cython.exceptval(check=False)
def _chord(
    depth: cython.double, across: cython.double, along: cython.double, u: cython.double, w: cython.double
) -> cython.double:
    """Return the square of the chord from a point of a face to the point at slopes `u` and `w` of it."""
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
        angle: cython.double
        around: CellCircle = self._around
        around.put_around(face, column, row, level)
        angle = self._centre.angle(around.x, around.y, around.z)
        if angle + around.radius <= self._radius:
            return _INSIDE
        return _MEETS if angle - around.radius <= self._radius + _SLACK else _OUTSIDE


@cython.ccall
def cap_cells(centre: tuple[float, float], radius: float, most: cython.Py_ssize_t) -> list[_Cell]:
    """Return about `most` cells that contain all of the circle."""
    cap: _Cap = _Cap(centre, radius)
    cells: list[_Cell] = []
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
            cells.append((face, 0, 0, 0))
        elif kind == _MEETS:
            waiting.append((face, 0, 0, 0))
    while waiting:
        cell = waiting.popleft()
        face, column, row, level = cell[0], cell[1], cell[2], cell[3]
        if level == _LEVELS or len(cells) + len(waiting) + 4 > most:
            cells.append(cell)
            continue
        level += 1
        for part in range(4):
            kind = cap.judge(face, 2 * column + part // 2, 2 * row + part % 2, level)
            if kind == _INSIDE:
                cells.append((face, 2 * column + part // 2, 2 * row + part % 2, level))
            elif kind == _MEETS:
                waiting.append((face, 2 * column + part // 2, 2 * row + part % 2, level))
    return cells


@cython.ccall
def cap_ranges(
    centre: tuple[float, float], radius: float, most: cython.Py_ssize_t, coarsest: cython.int, finest: cython.int
) -> list[tuple[bytes, bytes]]:
    """Return the sorted key ranges of geometries that meet the circle, in an index with cells of these levels."""
    return key_ranges(cap_cells(centre, radius, most), coarsest, finest)


@cython.ccall
def key_ranges(cells: list[_Cell], coarsest: cython.int, finest: cython.int) -> list[tuple[bytes, bytes]]:
    """Return as `cap_ranges` does, for geometries that meet one of the cells."""
    cell: tuple[int, int, int, int]
    ranges: list[tuple[bytes, bytes]] = []
    around: set[int] = set()
    buffer: bytearray = bytearray(_KEY)
    position: cython.ulonglong
    mask: cython.ulonglong
    name: cython.ulonglong
    level: cython.int
    above: cython.int
    low: bytes
    for cell in cells:
        level = cell[3]
        position = _curve_position(cell)
        low = _key(buffer, position, 0)
        mask = cython.cast(cython.ulonglong, 1) << 2 * (_LEVELS - level)
        ranges.append((low, _behind_key(buffer, position | (mask - 1), 31)))
        for above in range(level - 1, coarsest - 1, -1):
            mask = cython.cast(cython.ulonglong, 1) << 2 * (_LEVELS - above)
            position = position & ~(mask - 1)
            name = position << 1 | mask
            if name in around:
                break
            around.add(name)
            if above <= finest:
                ranges.append((_key(buffer, position, above), _behind_key(buffer, position, above)))
    return merged(ranges)


def cell_key(cell: _Cell) -> bytes:
    """Return the key of a cell."""
    return _key(bytearray(_KEY), _curve_position(cell), cell[3])


@cython.exceptval(1, check=True)
def _curve_position(cell: Sequence[int]) -> cython.ulonglong:
    """Return the position of a cell's first part on the curve."""
    face: cython.ulonglong = cell[0]
    column: cython.ulonglong = cell[1]
    row: cython.ulonglong = cell[2]
    level: cython.int = cell[3]
    return face << 60 | spread(column << (_LEVELS - level)) << 1 | spread(row << (_LEVELS - level))


def _write(buffer: bytearray, position: cython.ulonglong, level: cython.int) -> None:
    buffer[_NUMBER_AT] = position >> (64 - _LEVEL_BITS)
    put_number(buffer, _NUMBER_AT + 1, (position << _LEVEL_BITS | level) & _ALL)


def _key(buffer: bytearray, position: cython.ulonglong, level: cython.int) -> bytes:
    _write(buffer, position, level)
    return start_of(buffer, _KEY_BYTES)


def _behind_key(buffer: bytearray, position: cython.ulonglong, level: cython.int) -> bytes:
    """Return the bound after a key."""
    _write(buffer, position, level)
    return cut_behind(buffer, _KEY_BYTES)


class PointKeys:
    """The keys of points in an index whose finest cells are of the level `finest`; documents have their plain points at
    `path`.
    """

    _names: list[bytes]
    _finest: cython.int
    _point: PlainPoint
    _vector: Vector
    _buffer: bytearray

    def __init__(self, path: str, finest: int) -> None:
        self._names = [encoded_name(name) for name in path.split(".")]
        self._finest = finest
        self._point = PlainPoint()
        self._vector = Vector(0.0, 0.0)
        self._buffer = bytearray(_KEY)

    def of_document(self, raw: bytes) -> bytes | None:
        """Return the key of a document; None if it has no plain point on the sphere."""
        if not self._point.read_at(raw, self._names) or not self._point.on_sphere:
            return None
        return self.of_place(self._point.x, self._point.y)

    @cython.ccall
    def of_place(self, longitude: cython.double, latitude: cython.double) -> bytes:
        """Return the key of the cell of a position."""
        position: cython.ulonglong
        shift: cython.int = _LEVELS - self._finest
        side: cython.longlong = cython.cast(cython.longlong, 1) << self._finest
        at: Vector = self._vector
        x: cython.double
        y: cython.double
        z: cython.double
        depth: cython.double
        across: cython.double
        along: cython.double
        face: cython.ulonglong
        at.turn_to(longitude, latitude)
        x = abs(at.x)
        y = abs(at.y)
        z = abs(at.z)
        if x >= y and x >= z:
            face, depth, across, along = 0, at.x, at.y, at.z
        elif y >= z:
            face, depth, across, along = 1, at.y, at.z, at.x
        else:
            face, depth, across, along = 2, at.z, at.x, at.y
        if depth <= 0:
            face += 3
        position = face << 60
        position |= spread(cython.cast(cython.ulonglong, _step(across / depth, side)) << shift) << 1
        position |= spread(cython.cast(cython.ulonglong, _step(along / depth, side)) << shift)
        return _key(self._buffer, position, self._finest)


@cython.exceptval(check=False)
def _step(slope: cython.double, side: cython.longlong) -> cython.longlong:
    step: cython.longlong = cython.cast(cython.longlong, (atan(slope) / _QUARTER + 1.0) / 2.0 * side)
    return step if step < side else side - 1


class SphereDistances(CellDistances):
    """Distances from `centre` to the cells of keys, in `unit` for a radian. `area` is an area on a cube's faces."""

    _centre: Vector
    _around: CellCircle
    _unit: cython.double

    def __init__(self, centre: tuple[float, float], unit: float) -> None:
        super().__init__()
        self._centre = Vector(centre[0], centre[1])
        self._around = CellCircle()
        self._unit = unit

    def measure(self, entry: bytes, at: cython.Py_ssize_t) -> cython.bint:
        top: cython.ulonglong
        number: cython.ulonglong
        level: cython.int
        angle: cython.double
        if len(entry) < at + _KEY_BYTES or not stands_at(entry, at, _KEY, _NUMBER_AT):
            return False
        top = entry[at + _NUMBER_AT]
        number = number_at(entry, at + _NUMBER_AT + 1)
        level = number & 31
        number = number >> _LEVEL_BITS | top << (64 - _LEVEL_BITS)
        if level > _LEVELS:
            return False
        self.area = number * _AREA
        self._around.put_around(
            cython.cast(cython.int, number >> 60),
            gathered((number & _OF_FACE) >> 1) >> (_LEVELS - level),
            gathered(number & _OF_FACE) >> (_LEVELS - level),
            level,
        )
        angle = self._centre.angle(self._around.x, self._around.y, self._around.z)
        self.low = max(angle - self._around.radius - _ROUNDING, 0.0) * self._unit
        self.high = (angle + self._around.radius + _ROUNDING) * self._unit
        return True

    def farthest(self) -> cython.double:
        return _PI * self._unit
