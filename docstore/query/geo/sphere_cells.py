"""Cells of the sphere, and those that cover a shape.

The sphere is seen from its middle through the six faces of a cube. A face is a square, divided evenly by angle along
its axes into four, and each part again, up to `LEVELS` times. A cell is (face, column, row, level). Its borders are
arcs of great circles, so it is convex and lies within the circle around its middle that goes through its farthest
corner: what is said of a cell is judged by that circle, which is a little too large, never too small.
"""

from __future__ import annotations

import math

from docstore.errors import Code, CommandError
from docstore.kernel.geometry.outlines import covering_cells
from docstore.query.geo.shapes import Position
from docstore.query.geo.sphere import Spherical, vector

Cell = tuple[int, int, int, int]

LEVELS = 30
"""The sides of the smallest cells are about a centimetre on the earth."""

MOST_CELLS = 20_000

_SLACK = 1e-14
_PER_EDGE, _AT_ONCE = 64, 1024
_QUARTER = math.pi / 4


def cell_at(at: Position, level: int) -> Cell:
    """The cell of a longitude and a latitude."""
    point = vector(at)
    x, y, z = abs(point[0]), abs(point[1]), abs(point[2])
    axis = 0 if x >= y and x >= z else 1 if y >= z else 2
    depth = point[axis]
    side = 1 << level
    column = _step(point[(axis + 1) % 3] / depth, side)
    row = _step(point[(axis + 2) % 3] / depth, side)
    return axis if depth > 0 else axis + 3, column, row, level


def _step(slope: float, side: int) -> int:
    return min(int((math.atan(slope) / _QUARTER + 1) / 2 * side), side - 1)


def covering(region: Spherical, most: int, *, coarsest: int = 0, finest: int = LEVELS) -> list[Cell]:
    """Cells of the levels from `coarsest` to `finest` that hold all of the region: about `most` of them, unless the
    coarsest are more. BadValue when they are more than `MOST_CELLS`. Not for circles.
    """
    assert region.cap is None
    found = covering_cells(region.edges(), region.surrounds, most, coarsest, finest, MOST_CELLS)
    if found is None:
        raise CommandError(Code.BadValue, "the geometry is too large for the coarsest cells of the index")
    return found
