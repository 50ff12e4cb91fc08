"""The cells of a square of the plane that cover boxes and circles (`docstore.query.geo.plane_cells`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import cython

if not cython.compiled:
    from math import hypot

_ROUNDING: cython.double = 1e-12

Area = tuple[bool, float, float, float, float]
"""(False, least x, least y, greatest x, greatest y) of a box; (True, x, y, radius, 0) of a circle."""


class Covering:
    """What covers the areas of a square from `low` on, `side` long, divided in four up to `bits` times.

    What is said of a cell is judged by a rectangle that is larger by `spare` on each side.
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
        """About `most` cells (column, row, level) that hold all positions of the square in one of the areas."""
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
        """Keep a cell that lies in one of the areas, and look closer at one that may have something of one."""
        width: cython.double = self._side / (cython.cast(cython.longlong, 1) << level)
        left: cython.double = self._low + column * width
        low: cython.double = self._low + row * width
        right: cython.double = left + width + self._spare
        high: cython.double = low + width + self._spare
        left -= self._spare
        low -= self._spare
        area: Area
        meets: cython.bint = False
        for area in self._areas:
            if _holds(area, left, low, right, high):
                self._cells.append((column, row, level))
                return
            meets = meets or _meets(area, left, low, right, high)
        if meets:
            self._waiting.append((column, row, level))
        return


def _holds(
    area: Area, left: cython.double, low: cython.double, right: cython.double, high: cython.double
) -> cython.bint:
    """Whether all of a rectangle certainly lies in the area."""
    x: cython.double = area[1]
    y: cython.double = area[2]
    radius: cython.double = area[3]
    if not area[0]:
        return x <= left and y <= low and right <= radius and high <= cython.cast(cython.double, area[4])
    return (
        hypot(left - x, low - y) <= radius
        and hypot(left - x, high - y) <= radius
        and hypot(right - x, high - y) <= radius
        and hypot(right - x, low - y) <= radius
    )


def _meets(
    area: Area, left: cython.double, low: cython.double, right: cython.double, high: cython.double
) -> cython.bint:
    """Whether a rectangle may have something of the area: False is certain."""
    x: cython.double = area[1]
    y: cython.double = area[2]
    radius: cython.double = area[3]
    across: cython.double = 0
    along: cython.double = 0
    if not area[0]:
        return x <= right and left <= radius and y <= high and low <= cython.cast(cython.double, area[4])
    if left > x:
        across = left - x
    elif x > right:
        across = x - right
    if low > y:
        along = low - y
    elif y > high:
        along = y - high
    return hypot(across, along) <= radius * (1 + _ROUNDING)
