"""Cells of the sphere, and coverings of shapes by them.

The sphere is projected from its centre on the six faces of a cube. A face is a square, divided evenly by angle along
its axes into four, and each part again, up to `LEVELS` times. A cell is (face, column, row, level). Its borders are
arcs of great circles, so it is convex and lies within the circle around its middle through its farthest corner. Tests
of a cell use that circle, which is a little too large, never too small.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.kernel.geometry.outlines import covering_cells
from docstore.query.geo.sphere import Spherical

Cell = tuple[int, int, int, int]

LEVELS = 30
"""The sides of the smallest cells are about a centimetre on the earth."""

MOST_CELLS = 20_000


def covering(region: Spherical, most: int, *, coarsest: int = 0, finest: int = LEVELS) -> list[Cell]:
    """Return cells of the levels from `coarsest` to `finest` that contain all of the region. They are about `most`,
    unless more coarsest cells are needed; BadValue if these are more than `MOST_CELLS`. Not for circles.
    """
    assert region.cap is None
    cells = covering_cells(region.edges(), region.surrounds, most, coarsest, finest, MOST_CELLS)
    if cells is None:
        raise CommandError(Code.BadValue, "the geometry is too large for the coarsest cells of the index")
    return cells
