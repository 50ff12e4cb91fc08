"""Cells of a square of the plane, and those that cover a region of it.

The square from `low` to `high` on both axes is divided into four `bits` times. A cell is (column, row, level). Points
are rounded when they are put into cells, so what is said of a cell is judged by a rectangle that is a little larger.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.kernel.geometry.plane import Area, Covering
from docstore.query.geo.plane import Box, Circle, Outline, Region
from docstore.query.geo.shapes import Position

Cell = tuple[int, int, int]
Rectangle = tuple[float, float, float, float]
"""(least x, least y, greatest x, greatest y)."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Square:
    """The part of the plane that an index holds, in 2**bits steps on each axis."""

    low: float = -180.0
    high: float = 180.0
    bits: int = 26

    def holds(self, at: Position) -> bool:
        return self.low <= at[0] <= self.high and self.low <= at[1] <= self.high

    def spare(self) -> float:
        """By how much a rectangle is to be larger on each side that holds all positions of a cell."""
        return max((self.high - self.low) * _ROUNDING, 4 * math.ulp(max(abs(self.low), abs(self.high))))

    def _rectangle(self, cell: Cell) -> Rectangle:
        column, row, level = cell
        width = (self.high - self.low) / (1 << level)
        spare = self.spare()
        x, y = self.low + column * width, self.low + row * width
        return x - spare, y - spare, x + width + spare, y + width + spare

    def covering(self, regions: Sequence[Region], most: int) -> list[Cell]:
        """About `most` cells that hold all positions of the square that lie in one of the regions."""
        outlines = [region for region in regions if isinstance(region, Outline)]
        areas = [_area(region) for region in regions if not isinstance(region, Outline)]
        found: list[Cell] = []
        if areas:
            found += Covering(self.low, self.high - self.low, self.spare(), self.bits, areas).cells(most)
        for outline in outlines:
            found += self._covering_outline(outline, most)
        return found

    def _covering_outline(self, outline: Outline, most: int) -> list[Cell]:
        found: list[Cell] = []
        waiting: deque[Cell] = deque([(0, 0, 0)])
        while waiting:
            cell = waiting.popleft()
            column, row, level = cell
            if level == self.bits or len(found) + len(waiting) + 4 > most:
                found.append(cell)
                continue
            for part in range(4):
                child = (2 * column + part // 2, 2 * row + part % 2, level + 1)
                if _meets(outline, self._rectangle(child)):
                    waiting.append(child)
        return found


def _area(region: Box | Circle) -> Area:
    """The region as the kernel has it."""
    if isinstance(region, Circle):
        return True, *region.centre, region.radius, 0.0
    (a, b), (c, d) = region.corners
    return False, min(a, c), min(b, d), max(a, c), max(b, d)


def _corners(within: Rectangle) -> list[Position]:
    left, low, right, high = within
    return [(left, low), (left, high), (right, high), (right, low)]


def _meets(outline: Outline, within: Rectangle) -> bool:
    """Whether the rectangle may have something of the polygon: False is certain."""
    left, low, right, high = within
    corners = outline.corners
    edges = zip(corners, corners[1:] + corners[:1], strict=True)
    return any(_edge_meets(*edge, within) for edge in edges) or outline.holds(((left + right) / 2, (low + high) / 2))


def _edge_meets(start: Position, end: Position, within: Rectangle) -> bool:
    """Whether a straight edge may meet a rectangle: False is certain."""
    left, low, right, high = within
    if max(start[0], end[0]) < left or min(start[0], end[0]) > right:
        return False
    if max(start[1], end[1]) < low or min(start[1], end[1]) > high:
        return False
    dx, dy = end[0] - start[0], end[1] - start[1]
    sides = [dx * (y - start[1]) - dy * (x - start[0]) for x, y in _corners(within)]
    spare = _ROUNDING * (abs(dx) + abs(dy)) * max(map(abs, (*within, *start)))
    return min(sides) <= spare and max(sides) >= -spare
