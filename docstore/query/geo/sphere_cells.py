"""Cells of the sphere, and those that cover a shape.

The sphere is seen from its middle through the six faces of a cube. A face is a square, divided evenly by angle along
its axes into four, and each part again, up to `LEVELS` times. A cell is (face, column, row, level). Its borders are
arcs of great circles, so it is convex and lies within the circle around its middle that goes through its farthest
corner: what is said of a cell is judged by that circle, which is a little too large, never too small.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from docstore.bson.allowance import spend
from docstore.errors import Code, CommandError
from docstore.query.geo.shapes import Position
from docstore.query.geo.sphere import Arc, Spherical, Vector, angle, arc, distance, vector

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


def _circle(cell: Cell) -> tuple[Vector, float]:
    """The middle of a cell, and the radians to its farthest corner."""
    face, column, row, level = cell
    width = 2 / (1 << level)
    left, low = column * width - 1, row * width - 1
    middle = _point(face, left + width / 2, low + width / 2)
    corners = (_point(face, across, along) for across in (left, left + width) for along in (low, low + width))
    return middle, max(angle(middle, corner) for corner in corners) + _SLACK


def _point(face: int, across: float, along: float) -> Vector:
    axis, sign = face % 3, 1.0 if face < 3 else -1.0
    u, w = math.tan(across * _QUARTER), math.tan(along * _QUARTER)
    length = sign / math.sqrt(1 + u * u + w * w)
    found = [length, u * length, w * length]
    return (found[-axis % 3], found[(1 - axis) % 3], found[(2 - axis) % 3])


_FACES: Sequence[Cell] = [(face, 0, 0, 0) for face in range(6)]


def covering(region: Spherical, most: int, *, coarsest: int = 0, finest: int = LEVELS) -> list[Cell]:
    """Cells of the levels from `coarsest` to `finest` that hold all of the region: about `most` of them, unless the
    coarsest are more. BadValue when they are more than `MOST_CELLS`. Not for circles, which the kernel covers.
    """
    assert region.cap is None
    found: list[Cell] = []
    edges = [arc(*edge) for edge in region.edges()]
    waiting: deque[tuple[Cell, list[Arc]]] = deque()
    for whole in _FACES:
        _sort_out(region, whole, edges, coarsest, found, waiting)
    while waiting:
        cell, near = waiting.popleft()
        face, column, row, level = cell
        if level == finest or (level >= coarsest and len(found) + len(waiting) + 4 > most):
            found.append(cell)
            continue
        if len(found) + len(waiting) > MOST_CELLS:
            raise CommandError(Code.BadValue, "the geometry is too large for the coarsest cells of the index")
        for part in range(4):
            child = (face, 2 * column + part // 2, 2 * row + part % 2, level + 1)
            _sort_out(region, child, near, coarsest, found, waiting)
    return found


def _sort_out(
    region: Spherical,
    cell: Cell,
    edges: list[Arc],
    coarsest: int,
    found: list[Cell],
    waiting: deque[tuple[Cell, list[Arc]]],
) -> None:
    """Put a cell that lies inside to what is found, one that the border may meet to what waits; others are dropped."""
    middle, radius = _circle(cell)
    near: list[Arc] = []
    reach = radius + _SLACK
    for at in range(0, len(edges), _AT_ONCE):
        part = edges[at : at + _AT_ONCE]
        spend(_PER_EDGE * len(part))
        near += [
            edge for edge in part if edge.comes_near(middle, reach) and distance(middle, edge.start, edge.end) <= reach
        ]
    inside = not near and region.surrounds(middle)
    if inside and cell[3] >= coarsest:
        found.append(cell)
    elif inside or near:
        waiting.append((cell, near))
