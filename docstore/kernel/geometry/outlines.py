"""Shapes on the sphere by their edges: coverings of a shape by cells, and tests of points in areas.

Invariants:
- A covering contains all of its shape.
- If rounding could decide on which side of an edge a point lies, `docstore.query.geo.sphere` decides exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.geometry.cells import CellCircle
from docstore.kernel.geometry.points import PlainPoint, Vector
from docstore.kernel.match.predicate import PathPredicate

if not cython.compiled:
    from math import asin, atan2, cos, fabs, sqrt

    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, OBJECT, part

_PI: cython.double = 3.141592653589793
_SURE: cython.double = 1e-14
_SHORT: cython.double = 1e-8
_SLACK: cython.double = 1e-14
_PER_EDGE: cython.Py_ssize_t = 64
_PER_PAIR: cython.Py_ssize_t = 32

_OUTSIDE: cython.int = 0
_INSIDE: cython.int = 1
_UNKNOWN: cython.int = 2

_Cell = tuple[int, int, int, int]
_Place = tuple[float, float, float]


class _Edge:
    """An arc of a great circle, or a point, and the smallest circle around it."""

    ax: cython.double
    ay: cython.double
    az: cython.double
    bx: cython.double
    by: cython.double
    bz: cython.double
    x: cython.double
    y: cython.double
    z: cython.double
    radius: cython.double

    def __init__(self, start: _Place, end: _Place) -> None:
        length: cython.double
        self.ax, self.ay, self.az = start
        self.bx, self.by, self.bz = end
        self.x = self.ax + self.bx
        self.y = self.ay + self.by
        self.z = self.az + self.bz
        length = sqrt(self.x * self.x + self.y * self.y + self.z * self.z)
        if length < _SHORT:
            # The ends are antipodal.
            self.x, self.y, self.z, self.radius = self.ax, self.ay, self.az, _PI
        else:
            self.x /= length
            self.y /= length
            self.z /= length
            self.radius = _angle(self.x, self.y, self.z, self.ax, self.ay, self.az)

    @cython.exceptval(check=False)
    def is_near(self, x: cython.double, y: cython.double, z: cython.double, radius: cython.double) -> cython.bint:
        """True if the arc may come within `radius` of a point."""
        reach: cython.double = self.radius + radius
        if reach < _PI and self.x * x + self.y * y + self.z * z < cos(reach) - _SURE:
            return False
        return self.distance(x, y, z) <= radius

    @cython.exceptval(check=False)
    def distance(self, x: cython.double, y: cython.double, z: cython.double) -> cython.double:
        """Return the radians from a point to the nearest point of the arc."""
        nx: cython.double = self.ay * self.bz - self.az * self.by
        ny: cython.double = self.az * self.bx - self.ax * self.bz
        nz: cython.double = self.ax * self.by - self.ay * self.bx
        length: cython.double = sqrt(nx * nx + ny * ny + nz * nz)
        if (
            length != 0.0
            and _determinant(nx, ny, nz, self.ax, self.ay, self.az, x, y, z) > 0.0
            and _determinant(nx, ny, nz, self.bx, self.by, self.bz, x, y, z) < 0.0
        ):
            return asin(min(1.0, fabs(nx * x + ny * y + nz * z) / length))
        return min(_angle(x, y, z, self.ax, self.ay, self.az), _angle(x, y, z, self.bx, self.by, self.bz))


@cython.exceptval(check=False)
def _angle(
    ax: cython.double, ay: cython.double, az: cython.double, bx: cython.double, by: cython.double, bz: cython.double
) -> cython.double:
    x: cython.double = ay * bz - az * by
    y: cython.double = az * bx - ax * bz
    z: cython.double = ax * by - ay * bx
    return atan2(sqrt(x * x + y * y + z * z), ax * bx + ay * by + az * bz)


@cython.exceptval(check=False)
def _determinant(
    ax: cython.double,
    ay: cython.double,
    az: cython.double,
    bx: cython.double,
    by: cython.double,
    bz: cython.double,
    cx: cython.double,
    cy: cython.double,
    cz: cython.double,
) -> cython.double:
    """Return the product of the cross product of the first two with the third."""
    return (ay * bz - az * by) * cx + (az * bx - ax * bz) * cy + (ax * by - ay * bx) * cz


@cython.ccall
def covering_cells(
    edges: Sequence[tuple[_Place, _Place]],
    surrounds: Callable[[_Place], bool],
    most: cython.Py_ssize_t,
    coarsest: cython.int,
    finest: cython.int,
    limit: cython.Py_ssize_t,
) -> list[_Cell] | None:
    """Return cells of the levels from `coarsest` to `finest` that contain all of a shape with these edges. They are
    about `most`, unless more coarsest cells are needed; None if these are more than `limit`. `surrounds` returns
    whether a point lies in an area of the shape.
    """
    work: _Covering = _Covering(edges, surrounds, coarsest)
    item: tuple[_Cell, list[_Edge]]
    cell: _Cell
    near: list[_Edge]
    face: cython.int
    column: cython.longlong
    row: cython.longlong
    level: cython.int
    quarter: cython.int
    for face in range(6):
        work.sort_out(face, 0, 0, 0, work.edges)
    while work.waiting:
        item = work.waiting.popleft()
        cell = item[0]
        near = item[1]
        face, column, row, level = cell[0], cell[1], cell[2], cell[3]
        if level == finest or (level >= coarsest and len(work.cells) + len(work.waiting) + 4 > most):
            work.cells.append(cell)
            continue
        if len(work.cells) + len(work.waiting) > limit:
            return None
        for quarter in range(4):
            work.sort_out(face, 2 * column + (quarter >> 1), 2 * row + (quarter & 1), level + 1, near)
    return work.cells


class _Covering:
    """A covering under construction: its cells, and the cells to refine with the edges that may meet them."""

    cells: list[_Cell]
    waiting: deque[tuple[_Cell, list[_Edge]]]
    edges: list[_Edge]
    _surrounds: Callable[[_Place], bool]
    _coarsest: cython.int
    _around: CellCircle

    def __init__(
        self, edges: Sequence[tuple[_Place, _Place]], surrounds: Callable[[_Place], bool], coarsest: int
    ) -> None:
        self.cells = []
        self.waiting = deque()
        self.edges = []
        for start, end in edges:
            spend(_PER_EDGE)
            self.edges.append(_Edge(start, end))
        self._surrounds = surrounds
        self._coarsest = coarsest
        self._around = CellCircle()

    def sort_out(
        self, face: cython.int, column: cython.longlong, row: cython.longlong, level: cython.int, edges: Sequence[_Edge]
    ) -> None:
        """Add a cell inside the shape to the covering, queue one that is too coarse or that the border may meet, and
        drop others.
        """
        around: CellCircle = self._around
        edge: _Edge
        near: list[_Edge] = []
        x: cython.double
        y: cython.double
        z: cython.double
        reach: cython.double
        inside: cython.bint
        around.put_around(face, column, row, level)
        x, y, z, reach = around.x, around.y, around.z, around.radius + _SLACK
        for edge in edges:
            if edge.is_near(x, y, z, reach):
                near.append(edge)
        spend(_PER_EDGE * len(edges))
        inside = not near and self._surrounds((x, y, z))
        if inside and level >= self._coarsest:
            self.cells.append((face, column, row, level))
        elif inside or near:
            self.waiting.append(((face, column, row, level), near))


class WithinAreas(PathPredicate):
    """A point lies in one of several areas, each the inside of its first ring without the inside of the others.

    A ring is given as (the `outlook`, where every count of edges begins, lies inside; vertices).
    """

    _outlook: _Place
    _areas: list[list[tuple[bool, list[_Place]]]]
    _point: PlainPoint
    _vector: Vector
    _otherwise: Callable[[Value], bool]

    def __init__(
        self,
        path: str,
        outlook: _Place,
        areas: Sequence[Sequence[tuple[bool, Sequence[_Place]]]],
        otherwise: Callable[[Value], bool],
    ) -> None:
        super().__init__(path, True)
        self._outlook = outlook
        self._areas = [[(inside, list(vertices)) for inside, vertices in rings] for rings in areas]
        self._point = PlainPoint()
        self._vector = Vector(0.0, 0.0)
        self._otherwise = otherwise

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        kind: cython.int = _UNKNOWN
        if code not in (OBJECT, ARRAY):
            return False
        if self._point.read(code, raw, at, end) and self._point.on_sphere:
            self._vector.turn_to(self._point.x, self._point.y)
            kind = self._judge(self._vector.x, self._vector.y, self._vector.z)
        if kind != _UNKNOWN:
            return kind == _INSIDE
        return bool(self._otherwise((code, part(raw, at, end))))

    def _judge(self, x: cython.double, y: cython.double, z: cython.double) -> cython.int:
        kind: cython.int = _OUTSIDE
        for rings in self._areas:
            kind = self._in_area(rings, x, y, z)
            if kind != _OUTSIDE:
                return kind
        return _OUTSIDE

    def _in_area(
        self, rings: Sequence[Sequence[object]], x: cython.double, y: cython.double, z: cython.double
    ) -> cython.int:
        index: cython.Py_ssize_t
        kind: cython.int
        for index in range(len(rings)):
            kind = self._in_ring(rings[index], x, y, z)
            if kind == _UNKNOWN:
                return _UNKNOWN
            if (kind == _INSIDE) != (index == 0):
                return _OUTSIDE
        return _INSIDE

    def _in_ring(self, ring: Sequence[object], px: cython.double, py: cython.double, pz: cython.double) -> cython.int:
        """Count the edges that the arc from the outlook to the point crosses."""
        inside: cython.bint = bool(ring[0])
        vertices: list[_Place] = ring[1]  # type: ignore[assignment]
        vertex: _Place
        ox: cython.double = self._outlook[0]
        oy: cython.double = self._outlook[1]
        oz: cython.double = self._outlook[2]
        nx: cython.double = oy * pz - oz * py
        ny: cython.double = oz * px - ox * pz
        nz: cython.double = ox * py - oy * px
        index: cython.Py_ssize_t
        sx: cython.double
        sy: cython.double
        sz: cython.double
        ex: cython.double
        ey: cython.double
        ez: cython.double
        before: cython.double
        side: cython.double
        start_side: cython.double
        end_side: cython.double
        vertex = vertices[len(vertices) - 1]
        sx, sy, sz = vertex[0], vertex[1], vertex[2]
        before = nx * sx + ny * sy + nz * sz
        for index in range(len(vertices)):
            vertex = vertices[index]
            ex, ey, ez = vertex[0], vertex[1], vertex[2]
            side = nx * ex + ny * ey + nz * ez
            if not ((before > _SURE and side > _SURE) or (before < -_SURE and side < -_SURE)):
                if fabs(before) <= _SURE or fabs(side) <= _SURE:
                    return _UNKNOWN
                # The edge's ends are on two sides of the arc. They cross if the arc's ends are on two sides of the
                # edge.
                start_side = _determinant(sx, sy, sz, ex, ey, ez, ox, oy, oz)
                end_side = _determinant(sx, sy, sz, ex, ey, ez, px, py, pz)
                if fabs(start_side) <= _SURE or fabs(end_side) <= _SURE:
                    return _UNKNOWN
                # On the opposite side of the sphere the signs are reversed.
                if (start_side > 0.0) != (end_side > 0.0) and (start_side > 0.0) == (before < 0.0):
                    inside = not inside
            sx, sy, sz, before = ex, ey, ez, side
        spend(_PER_PAIR * len(vertices))
        return _INSIDE if inside else _OUTSIDE
