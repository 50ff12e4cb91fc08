"""The cells of a square of the plane that cover boxes and circles (`docstore.query.geo.plane_cells`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import cython

from docstore.bson.walk import ARRAY, BINARY, encoded_name
from docstore.kernel.geometry.nearby import CellDistances
from docstore.kernel.geometry.points import PlainPoint, Vector
from docstore.kernel.geometry.regions import WithinOutline
from docstore.kernel.keys.encoding import encode_key

if not cython.compiled:
    from math import hypot

    from docstore.kernel.geometry.curve import (
        cut_behind,
        gathered,
        interleaved,
        merged,
        number_at,
        put_number,
        start_of,
    )
    from docstore.kernel.match.path_predicates import stands_at

_BITS: cython.int = 32
_ALL: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
_DEGREE: cython.double = 3.141592653589793 / 180.0
_KEY: bytes = encode_key((BINARY, b"\x08\0\0\0\x80" + bytes(8)))
_KEY_BYTES: cython.Py_ssize_t = len(_KEY)
_NUMBER_AT: cython.Py_ssize_t = _KEY_BYTES - 8

_ROUNDING: cython.double = 1e-12

Area = tuple[bool, float, float, float, float]
"""(False, least x, least y, greatest x, greatest y) of a box; (True, x, y, radius, 0) of a circle."""


class Covering:
    """Covers areas by cells of a square from `low` on, `side` long, divided into four up to `bits` times.

    Tests of a cell use a rectangle that is larger by `spare` on each side.
    """

    _low: cython.double
    _side: cython.double
    _spare: cython.double
    _bits: cython.int
    _areas: list[Area]
    _cells: list[tuple[int, int, int]]
    _waiting: deque[tuple[int, int, int]]

    def __init__(self, low: float, side: float, spare: float, bits: int, areas: Sequence[Area]) -> None:
        self._low = low
        self._side = side
        self._spare = spare
        self._bits = bits
        self._areas = list(areas)
        self._cells = []
        self._waiting = deque()

    def cells(self, most: int) -> list[tuple[int, int, int]]:
        """Return about `most` cells (column, row, level) that contain all positions of the square in one of
        the areas.
        """
        cell: tuple[int, int, int]
        column: cython.longlong
        row: cython.longlong
        level: cython.int
        part: cython.int
        self._cells = []
        self._sort_out(0, 0, 0)
        while self._waiting:
            cell = self._waiting.popleft()
            column, row, level = cell
            if level == self._bits or len(self._cells) + len(self._waiting) + 4 > most:
                self._cells.append(cell)
                continue
            for part in range(4):
                self._sort_out(2 * column + (part >> 1), 2 * row + (part & 1), level + 1)
        return self._cells

    def _sort_out(self, column: cython.longlong, row: cython.longlong, level: cython.int) -> None:
        """Keep a cell that lies in one of the areas, and queue one that may meet one for refinement."""
        width: cython.double = self._side / (cython.cast(cython.longlong, 1) << level)
        low_x: cython.double = self._low + column * width
        low_y: cython.double = self._low + row * width
        high_x: cython.double = low_x + width + self._spare
        high_y: cython.double = low_y + width + self._spare
        low_x -= self._spare
        low_y -= self._spare
        area: Area
        meets: cython.bint = False
        for area in self._areas:
            if _holds(area, low_x, low_y, high_x, high_y):
                self._cells.append((column, row, level))
                return
            meets = meets or _meets(area, low_x, low_y, high_x, high_y)
        if meets:
            self._waiting.append((column, row, level))
        return


def _holds(
    area: Area, low_x: cython.double, low_y: cython.double, high_x: cython.double, high_y: cython.double
) -> cython.bint:
    """True if all of a rectangle lies in the area: True is certain."""
    x: cython.double = area[1]
    y: cython.double = area[2]
    radius: cython.double = area[3]
    if not area[0]:
        return x <= low_x and y <= low_y and high_x <= radius and high_y <= cython.cast(cython.double, area[4])
    return (
        hypot(low_x - x, low_y - y) <= radius
        and hypot(low_x - x, high_y - y) <= radius
        and hypot(high_x - x, high_y - y) <= radius
        and hypot(high_x - x, low_y - y) <= radius
    )


def _meets(
    area: Area, low_x: cython.double, low_y: cython.double, high_x: cython.double, high_y: cython.double
) -> cython.bint:
    """True if a rectangle may meet the area: False is certain."""
    x: cython.double = area[1]
    y: cython.double = area[2]
    radius: cython.double = area[3]
    across: cython.double = 0
    along: cython.double = 0
    if not area[0]:
        return x <= high_x and low_x <= radius and y <= high_y and low_y <= cython.cast(cython.double, area[4])
    if low_x > x:
        across = low_x - x
    elif x > high_x:
        across = x - high_x
    if low_y > y:
        along = low_y - y
    elif y > high_y:
        along = y - high_y
    return hypot(across, along) <= radius * (1 + _ROUNDING)


@cython.ccall
def outline_cells(
    corners: Sequence[tuple[float, float]],
    low: cython.double,
    side: cython.double,
    spare: cython.double,
    bits: cython.int,
    most: cython.Py_ssize_t,
) -> list[tuple[int, int, int]]:
    """Return as `Covering.cells` does, for a polygon."""
    outline: WithinOutline = WithinOutline("", corners, bool)
    cells: list[tuple[int, int, int]] = []
    waiting: deque[tuple[int, int, int]] = deque([(0, 0, 0)])
    cell: tuple[int, int, int]
    column: cython.longlong
    row: cython.longlong
    level: cython.int
    quarter: cython.int
    width: cython.double
    x: cython.double
    y: cython.double
    while waiting:
        cell = waiting.popleft()
        column, row, level = cell[0], cell[1], cell[2]
        if level == bits or len(cells) + len(waiting) + 4 > most:
            cells.append(cell)
            continue
        level += 1
        width = side / (cython.cast(cython.longlong, 1) << level)
        for quarter in range(4):
            x = low + (2 * column + (quarter >> 1)) * width
            y = low + (2 * row + (quarter & 1)) * width
            if _edges_meet(outline, x - spare, y - spare, x + width + spare, y + width + spare):
                waiting.append((2 * column + (quarter >> 1), 2 * row + (quarter & 1), level))
    return cells


def _edges_meet(
    outline: WithinOutline, low_x: cython.double, low_y: cython.double, high_x: cython.double, high_y: cython.double
) -> cython.bint:
    """True if a rectangle may meet the polygon: False is certain."""
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(outline.xs)
    ax: cython.double = outline.xs[count - 1]
    ay: cython.double = outline.ys[count - 1]
    bx: cython.double
    by: cython.double
    dx: cython.double
    dy: cython.double
    first: cython.double
    second: cython.double
    third: cython.double
    fourth: cython.double
    spare: cython.double
    for index in range(count):
        bx = outline.xs[index]
        by = outline.ys[index]
        if max(ax, bx) >= low_x and min(ax, bx) <= high_x and max(ay, by) >= low_y and min(ay, by) <= high_y:
            # The sides of the edge on which the corners of the rectangle lie.
            dx = bx - ax
            dy = by - ay
            first = dx * (low_y - ay) - dy * (low_x - ax)
            second = dx * (high_y - ay) - dy * (low_x - ax)
            third = dx * (high_y - ay) - dy * (high_x - ax)
            fourth = dx * (low_y - ay) - dy * (high_x - ax)
            spare = max(abs(low_x), abs(low_y), abs(high_x), abs(high_y), abs(ax), abs(ay))
            spare = spare * _ROUNDING * (abs(dx) + abs(dy))
            if min(first, second, third, fourth) <= spare and max(first, second, third, fourth) >= -spare:
                return True
        ax = bx
        ay = by
    return outline.judge((low_x + high_x) / 2.0, (low_y + high_y) / 2.0) == 1


def cell_ranges(cells: list[tuple[int, int, int]]) -> list[tuple[bytes, bytes]]:
    """Return the sorted key ranges of positions in cells (column, row, level)."""
    cell: tuple[int, int, int]
    column: cython.ulonglong
    row: cython.ulonglong
    first: cython.ulonglong
    last: cython.ulonglong
    shift: cython.int
    ranges: list[tuple[bytes, bytes]] = []
    buffer: bytearray = bytearray(_KEY)
    low: bytes
    for cell in cells:
        column, row, shift = cell[0], cell[1], 2 * (_BITS - cell[2])
        if shift == 2 * _BITS:
            first, last = 0, _ALL
        else:
            first = interleaved(column, row) << shift
            last = first | ((cython.cast(cython.ulonglong, 1) << shift) - 1)
        put_number(buffer, _NUMBER_AT, first)
        low = start_of(buffer, _KEY_BYTES)
        put_number(buffer, _NUMBER_AT, last)
        ranges.append((low, cut_behind(buffer, _KEY_BYTES)))
        if last == _ALL:
            # The bound lies before the number.
            buffer[:] = _KEY
    return merged(ranges)


class SquareKeys:
    """The keys of points in an index of a square from `low` to `high`, in 2**bits steps on each axis; documents have
    their plain pairs at `path`.
    """

    _names: list[bytes]
    _low: cython.double
    _high: cython.double
    _bits: cython.int
    _point: PlainPoint
    _buffer: bytearray

    def __init__(self, path: str, low: float, high: float, bits: int) -> None:
        self._names = [encoded_name(name) for name in path.split(".")]
        self._low = low
        self._high = high
        self._bits = bits
        self._point = PlainPoint()
        self._buffer = bytearray(_KEY)

    def of_document(self, raw: bytes) -> bytes | None:
        """Return the key of a document; None if it has no plain pair of coordinates in the square."""
        point: PlainPoint = self._point
        if not point.read_at(raw, self._names) or point.code != ARRAY:
            return None
        if not (self._low <= point.x and point.x <= self._high and self._low <= point.y and point.y <= self._high):
            return None
        return self.of_place(point.x, point.y)

    @cython.ccall
    def of_place(self, x: cython.double, y: cython.double) -> bytes:
        """Return the key of the cell of a position in the square."""
        steps: cython.longlong = cython.cast(cython.longlong, 1) << self._bits
        scale: cython.double = steps / (self._high - self._low)
        column: cython.longlong = cython.cast(cython.longlong, (x - self._low) * scale)
        row: cython.longlong = cython.cast(cython.longlong, (y - self._low) * scale)
        position: cython.ulonglong
        if column >= steps:
            column = steps - 1
        if row >= steps:
            row = steps - 1
        position = interleaved(cython.cast(cython.ulonglong, column), cython.cast(cython.ulonglong, row))
        put_number(self._buffer, _NUMBER_AT, position << 2 * (_BITS - self._bits))
        return start_of(self._buffer, _KEY_BYTES)


class PlaneDistances(CellDistances):
    """Distances from `centre` to the cells of keys in a square from `low` on, `side` long, in 2**bits steps on each
    axis.

    They are distances in the plane, or if `unit` is not 0 on the sphere, in `unit` for a radian. Cells are larger by
    `spare` on each side, because points are rounded when they are put into cells. `half` are the halves of the sides of
    a box around the centre; a cell may meet it only if its `low` is not above 0.
    """

    _x: cython.double
    _y: cython.double
    _low: cython.double
    _side: cython.double
    _spare: cython.double
    _bits: cython.int
    _unit: cython.double
    _across: cython.double
    _along: cython.double
    _centre: Vector
    _vector: Vector

    def __init__(
        self,
        centre: tuple[float, float],
        unit: float,
        low: float,
        side: float,
        spare: float,
        bits: int,
        half: tuple[float, float] = (-1.0, -1.0),
    ) -> None:
        super().__init__()
        self._x, self._y = centre
        self._across, self._along = half
        self._low = low
        self._side = side
        self._spare = spare
        self._bits = bits
        self._unit = unit
        self._centre = Vector(self._x, self._y)
        self._vector = Vector(0.0, 0.0)

    def measure(self, entry: bytes, at: cython.Py_ssize_t) -> cython.bint:
        number: cython.ulonglong
        shift: cython.int = 2 * (_BITS - self._bits)
        half: cython.double = self._side / (cython.cast(cython.longlong, 1) << self._bits) / 2.0
        x: cython.double
        y: cython.double
        angle: cython.double
        if len(entry) < at + _KEY_BYTES or not stands_at(entry, at, _KEY, _NUMBER_AT):
            return False
        number = number_at(entry, at + _NUMBER_AT)
        self.area = number * (self._side / 4294967296.0) * (self._side / 4294967296.0)
        number = number >> shift
        x = self._low + (2.0 * gathered(number >> 1) + 1.0) * half
        y = self._low + (2.0 * gathered(number) + 1.0) * half
        half += self._spare
        if self._across >= 0.0:
            self.low = max(abs(self._x - x) - self._across, abs(self._y - y) - self._along) - half
            self.high = self.farthest()
            return True
        if self._unit == 0.0:
            x = abs(self._x - x)
            y = abs(self._y - y)
            self.low = hypot(max(x - half, 0.0), max(y - half, 0.0)) * (1.0 - _ROUNDING)
            self.high = hypot(x + half, y + half) * (1.0 + _ROUNDING)
            return True
        # The angle between two positions is never greater than the distance of their degrees in the plane.
        self._vector.turn_to(x, y)
        angle = self._centre.angle(self._vector.x, self._vector.y, self._vector.z)
        half = 1.5 * half * _DEGREE + _ROUNDING
        self.low = max(angle - half, 0.0) * self._unit
        self.high = (angle + half) * self._unit
        return True

    def farthest(self) -> cython.double:
        return 180.0 * _DEGREE * self._unit if self._unit != 0.0 else 4.0 * self._side
