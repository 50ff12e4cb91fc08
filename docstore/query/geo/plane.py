"""Regions of the plane: `$box`, `$center`, `$polygon`. Borders belong to boxes and circles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from docstore.query.geo.shapes import Point, Position, Shape


@dataclass(frozen=True, slots=True)
class Box:
    """Two corners, in any order."""

    corners: tuple[Position, Position]

    def holds(self, at: Position) -> bool:
        (a, b), (c, d) = self.corners
        return min(a, c) <= at[0] <= max(a, c) and min(b, d) <= at[1] <= max(b, d)


@dataclass(frozen=True, slots=True)
class Circle:
    centre: Position
    radius: float

    def holds(self, at: Position) -> bool:
        dx, dy = at[0] - self.centre[0], at[1] - self.centre[1]
        return math.hypot(dx, dy) <= self.radius


@dataclass(frozen=True, slots=True)
class Outline:
    """A polygon by the even-odd rule, including its corners and its horizontal and vertical sides."""

    corners: tuple[Position, ...]

    def holds(self, at: Position) -> bool:
        x, y = at
        inside = False
        before = self.corners[-1]
        for corner in self.corners:
            if corner == at:
                return True
            (ax, ay), (bx, by) = before, corner
            if (ay == by == y and min(ax, bx) <= x <= max(ax, bx)) or (
                ax == bx == x and min(ay, by) <= y <= max(ay, by)
            ):
                return True
            if min(ay, by) < y <= max(ay, by) and x <= max(ax, bx):
                reached = (y - ay) * (bx - ax) / (by - ay) + ax
                if ax == bx or x <= reached:
                    inside = not inside
            before = corner
        return inside


Region = Box | Circle | Outline


def contains(region: Region, shape: Shape) -> bool:
    """True if a stored shape lies in the region; only points can lie in the plane."""
    return isinstance(shape, Point) and region.holds(shape.at)
