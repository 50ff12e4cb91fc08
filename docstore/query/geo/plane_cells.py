"""Cells of a square of the plane, and coverings of regions by them.

The square from `low` to `high` on both axes is divided into four `bits` times. A cell is (column, row, level). Points
are rounded when they are put into cells, so tests of a cell use a rectangle that is a little larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.kernel.geometry.plane import Area, Covering, outline_cells
from docstore.query.geo.plane import Box, Circle, Outline, Region
from docstore.query.geo.shapes import Position

Cell = tuple[int, int, int]

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
        """Return the margin on each side of a cell within which all its positions lie."""
        return max((self.high - self.low) * _ROUNDING, 4 * math.ulp(max(abs(self.low), abs(self.high))))

    def covering(self, regions: Sequence[Region], most: int) -> list[Cell]:
        """Return about `most` cells that contain all positions of the square in one of the regions."""
        outlines = [region for region in regions if isinstance(region, Outline)]
        areas = [_area(region) for region in regions if not isinstance(region, Outline)]
        cells: list[Cell] = []
        if areas:
            cells += Covering(self.low, self.high - self.low, self.spare(), self.bits, areas).cells(most)
        for outline in outlines:
            cells += outline_cells(outline.corners, self.low, self.high - self.low, self.spare(), self.bits, most)
        return cells


def _area(region: Box | Circle) -> Area:
    """Return the region in the kernel's form."""
    if isinstance(region, Circle):
        return True, *region.centre, region.radius, 0.0
    (a, b), (c, d) = region.corners
    return False, min(a, c), min(b, d), max(a, c), max(b, d)
