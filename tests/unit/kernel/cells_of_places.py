"""The cell of a place on the sphere, calculated by itself: what the kernel's cells are held against."""

from __future__ import annotations

import math

from docstore.query.geo.shapes import Position
from docstore.query.geo.sphere import vector
from docstore.query.geo.sphere_cells import Cell

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
