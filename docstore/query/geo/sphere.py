"""Shapes on the unit sphere: edges are arcs of great circles.

Orientation tests of three points are exact, so rounding does not decide if arcs cross. The inside of a ring is the
smaller part of the sphere, unless its shape is `wound`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from docstore.bson.allowance import spend
from docstore.query.geo.shapes import Group, Line, Point, Polygon, Position, Shape, single_parts

Vector = tuple[float, float, float]

_SURE = 1e-14
"""Least determinant of unit vectors whose sign survives the rounding of floating-point arithmetic."""

_SHORT = 1e-8
"""Greatest length of the sum of two antipodal points, which have no middle."""

_TOUCHES = 1e-15
"""Radians within which a point lies on a line."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The points within `radius` (radians) of a centre."""

    centre: Position
    radius: float


def vector(at: Position) -> Vector:
    """Return the point of a longitude and a latitude in degrees."""
    longitude, latitude = math.radians(at[0]), math.radians(at[1])
    return (
        math.cos(latitude) * math.cos(longitude),
        math.cos(latitude) * math.sin(longitude),
        math.sin(latitude),
    )


def _vectors(positions: Sequence[Position]) -> list[Vector]:
    vectors: list[Vector] = []
    for at in positions:
        spend(_PER_VERTEX)
        vectors.append(vector(at))
    return vectors


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def angle(a: Vector, b: Vector) -> float:
    """Return the distance of two points in radians."""
    return math.atan2(math.hypot(*cross(a, b)), dot(a, b))


def turn(a: Vector, b: Vector, c: Vector) -> int:
    """Return 1 if the path a, b, c turns left, -1 if it turns right, 0 only if two of the points are equal.

    Points on one great circle count as if each were moved by a tiny amount, the least of them most.
    """
    determinant = dot(cross(a, b), c)
    if abs(determinant) > _SURE:
        return 1 if determinant > 0 else -1
    if a in (b, c) or b == c:
        return 0
    return _exact_turn(a, b, c)


@lru_cache(maxsize=1 << 14)
def _exact_turn(a: Vector, b: Vector, c: Vector) -> int:
    exact = _scale_to_integers(a, b, c)
    determinant = _determinant(exact)
    if determinant:
        return 1 if determinant > 0 else -1
    order = sorted(range(3), key=lambda position: (a, b, c)[position])
    parity = 1 if order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]) else -1
    low, middle, high = (exact[position] for position in order)
    return parity * _moved(low, middle, high)


def _scale_to_integers(*points: Vector) -> list[list[int]]:
    """Return the points scaled by the power of two that leaves integers; scaling does not change a turn."""
    ratios = [[number.as_integer_ratio() for number in point] for point in points]
    scale = max(denominator for ratio in ratios for _, denominator in ratio)
    return [[number * (scale // denominator) for number, denominator in ratio] for ratio in ratios]


def _determinant(rows: Sequence[Sequence[int]]) -> int:
    (a, b, c), (d, e, f), (g, h, i) = rows
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def _moved(low: Sequence[int], middle: Sequence[int], high: Sequence[int]) -> int:
    """Return the sign of the determinant under symbolic perturbation: that of the first term that is not zero."""
    terms = (
        middle[0] * high[1] - middle[1] * high[0],
        middle[2] * high[0] - middle[0] * high[2],
        middle[1] * high[2] - middle[2] * high[1],
        high[0] * low[1] - high[1] * low[0],
        high[0],
        -high[1],
        high[2] * low[0] - high[0] * low[2],
        high[2],
        low[0] * middle[1] - low[1] * middle[0],
        -middle[0],
        middle[1],
        low[0],
    )
    return next((1 if term > 0 else -1 for term in terms if term), 1)


def _perpendicular(point: Vector) -> Vector:
    """Return a direction at a right angle to the point; the same point always has the same direction."""
    largest = max(range(3), key=lambda axis: abs(point[axis]))
    helper = [0.012, 0.0053, 0.00457]
    helper[(largest + 2) % 3] = 1.0
    normal = cross(point, (helper[0], helper[1], helper[2]))
    length = math.hypot(*normal)
    return (normal[0] / length, normal[1] / length, normal[2] / length)


def _in_order(a: Vector, b: Vector, c: Vector, centre: Vector) -> bool:
    """True if b comes between a and c, going counter-clockwise around the centre."""
    count = (turn(b, centre, a) >= 0) + (turn(c, centre, b) >= 0) + (turn(a, centre, c) > 0)
    return count >= 2


def crosses(a: Vector, b: Vector, c: Vector, d: Vector) -> bool:
    """True if two arcs without a common end cross inside both."""
    if a in (c, d) or b in (c, d):
        return False
    side = turn(a, c, b)
    return side != 0 and turn(c, b, d) == side and turn(b, d, a) == side and turn(d, a, c) == side


def _passes(a: Vector, b: Vector, c: Vector, d: Vector) -> bool:
    """True if the arc from a to b changes sides at the arc from c to d; a common end counts for one of two arcs."""
    if a not in (c, d) and b not in (c, d):
        return crosses(a, b, c, d)
    if a == b or c == d:
        return False
    if a == d:
        return _in_order(_perpendicular(a), c, b, a)
    if b == c:
        return _in_order(_perpendicular(b), d, a, b)
    if a == c:
        return _in_order(_perpendicular(a), d, b, a)
    return _in_order(_perpendicular(b), c, a, b)


_PER_PAIR, _PER_VERTEX = 32, 64
"""Units of work charged for testing a pair of arcs, and a vertex."""

_AT_ONCE = 1024

OUTLOOK: Vector = (0.00456762077230, 0.99947476613078, 0.03208315302933)
"""The start of every count of edges: `Ring.contains` counts the edges between it and a point."""


class Ring:
    """A closed line and its inside, to the left of its edges. `outlook_inside`: `OUTLOOK` lies inside."""

    def __init__(self, vertices: Sequence[Vector]) -> None:
        self.vertices = list(vertices)
        self.outlook_inside = False
        inside = _in_order(_perpendicular(self.vertices[1]), self.vertices[0], self.vertices[2], self.vertices[1])
        self.outlook_inside = inside != self.contains(self.vertices[1])

    def edges(self) -> Iterator[tuple[Vector, Vector]]:
        return zip(self.vertices, self.vertices[1:] + self.vertices[:1], strict=True)

    def contains(self, point: Vector) -> bool:
        inside = self.outlook_inside
        x, y, z = cross(OUTLOOK, point)
        start = self.vertices[-1]
        before = x * start[0] + y * start[1] + z * start[2]
        for at in range(0, len(self.vertices), _AT_ONCE):
            part = self.vertices[at : at + _AT_ONCE]
            spend(_PER_PAIR * len(part))
            for end in part:
                side = x * end[0] + y * end[1] + z * end[2]
                # An edge can cross the path only if its ends may be on different sides of it.
                if not (before > _SURE < side or before < -_SURE > side):
                    inside ^= _passes(OUTLOOK, point, start, end)
                start, before = end, side
        return inside

    @property
    def is_large(self) -> bool:
        """True if the inside is more than half of the sphere."""
        total = 0.0
        count = len(self.vertices)
        for position, vertex in enumerate(self.vertices):
            spend(_PER_VERTEX)
            before, after = self.vertices[position - 1], self.vertices[(position + 1) % count]
            bend = angle(cross(before, vertex), cross(vertex, after))
            total += bend if turn(before, vertex, after) > 0 else -bend
        return total < 0

    def reversed(self) -> Ring:
        return Ring(self.vertices[::-1])


class Area:
    """A polygon: the inside of its first ring without the inside of the others."""

    def __init__(self, polygon: Polygon) -> None:
        rings = [Ring(_vectors(ring)) for ring in polygon.rings]
        self.rings = rings if polygon.wound else [ring.reversed() if ring.is_large else ring for ring in rings]

    def edges(self) -> Iterator[tuple[Vector, Vector]]:
        for ring in self.rings:
            yield from ring.edges()

    def contains(self, point: Vector) -> bool:
        outer, *holes = self.rings
        return outer.contains(point) and not any(hole.contains(point) for hole in holes)

    def holds_vertex(self, point: Vector) -> bool:
        """True if a vertex of another shape lies inside, or is a vertex of this one."""
        return any(point in ring.vertices for ring in self.rings) or self.contains(point)


@dataclass(frozen=True, slots=True)
class Arc:
    """An edge with the smallest circle around it: its middle, and the radians to its ends."""

    start: Vector
    end: Vector
    middle: Vector
    radius: float

    def comes_near(self, point: Vector, radius: float) -> bool:
        """True if the arc may come within `radius` of a point. A cheap test: False is certain, True is not."""
        x, y, z = self.middle
        reach = self.radius + radius
        return reach >= math.pi or x * point[0] + y * point[1] + z * point[2] >= math.cos(reach) - _SURE


def arc(start: Vector, end: Vector) -> Arc:
    """Return the shorter arc between two points."""
    spend(_PER_VERTEX)
    x, y, z = start[0] + end[0], start[1] + end[1], start[2] + end[2]
    length = math.sqrt(x * x + y * y + z * z)
    if length < _SHORT:
        return Arc(start, end, start, math.pi)
    middle = (x / length, y / length, z / length)
    return Arc(start, end, middle, angle(middle, start))


def check_rings(polygon: Polygon) -> str | None:
    """Return the error message for invalid rings: crossing edges, repeated vertices, holes outside; None if valid."""
    rings = [_vectors(ring) for ring in polygon.rings]
    for vertices in rings:
        if len(set(vertices)) < len(vertices):
            return "Loop is not valid, it meets a vertex twice"
        edges = list(zip(vertices, vertices[1:] + vertices[:1], strict=True))
        if any(a == (-b[0], -b[1], -b[2]) for a, b in edges):
            return "Loop is not valid, an edge joins opposite points"
        near = _near_each_other([arc(*edge) for edge in edges])
        if any(crosses(first_arc.start, first_arc.end, other.start, other.end) for first_arc, other in near):
            return "Loop is not valid, edges cross"
    area = Area(polygon)
    outer, *holes = area.rings
    for hole in holes:
        if not all(outer.contains(vertex) or vertex in outer.vertices for vertex in hole.vertices):
            return "Secondary loops not contained by first exterior loop - secondary loops must be holes"
        if any(crosses(*edge, *other) for edge in hole.edges() for other in outer.edges()):
            return "Polygon isn't a valid polygon, its loops cross"
    return None


def _near_each_other(arcs: list[Arc]) -> Iterator[tuple[Arc, Arc]]:
    """Yield the pairs of arcs whose bounding circles overlap, by a sweep along the axis of their widest spread."""
    spreads = [
        max(member.middle[axis] for member in arcs) - min(member.middle[axis] for member in arcs) for axis in range(3)
    ]
    axis = spreads.index(max(spreads))
    open_arcs: list[Arc] = []
    for current_arc in sorted(arcs, key=lambda member: member.middle[axis] - member.radius):
        begin = current_arc.middle[axis] - current_arc.radius - _TOUCHES
        open_arcs = [other for other in open_arcs if other.middle[axis] + other.radius >= begin]
        spend(_PER_VERTEX + _PER_PAIR * len(open_arcs))
        for other in open_arcs:
            if other.comes_near(current_arc.middle, current_arc.radius):
                yield current_arc, other
        open_arcs.append(current_arc)


class Spherical:
    """A shape on the sphere, with tests of containment and intersection."""

    def __init__(self, shape: Shape | Cap) -> None:
        self.cap = shape if isinstance(shape, Cap) else None
        self._centre = vector(self.cap.centre) if self.cap is not None else (0.0, 0.0, 0.0)
        self._points: list[Vector] = []
        self._lines: list[list[Vector]] = []
        self._areas: list[Area] = []
        for part in single_parts(shape) if isinstance(shape, Point | Line | Polygon | Group) else ():
            match part:
                case Point(at):
                    self._points.append(vector(at))
                case Line(positions):
                    self._lines.append([vector(at) for at in positions])
                case Polygon():
                    self._areas.append(Area(part))

    @property
    def has_inside(self) -> bool:
        return self.cap is not None or bool(self._areas)

    def edges(self) -> list[tuple[Vector, Vector]]:
        """Return the points, each as an arc without length, the arcs of the lines and those of the areas' borders."""
        points = [(point, point) for point in self._points]
        lines = [edge for line in self._lines for edge in pairwise(line)]
        return points + lines + [edge for area in self._areas for edge in area.edges()]

    def areas(self) -> list[list[tuple[bool, list[Vector]]]] | None:
        """Return the rings of each area as (`OUTLOOK` lies inside, vertices); None if the shape has other parts."""
        if self.cap is not None or self._points or self._lines:
            return None
        return [[(ring.outlook_inside, ring.vertices) for ring in area.rings] for area in self._areas]

    def surrounds(self, point: Vector) -> bool:
        """True if the point lies in one of the areas."""
        return any(area.contains(point) for area in self._areas)

    def gap(self, point: Vector) -> float:
        """Return the radians from a point to the nearest point of the shape."""
        if self.surrounds(point):
            return 0.0
        return min(distance(point, *edge) for edge in self.edges())

    def contains(self, shape: Shape) -> bool:
        """True if all of the shape lies inside; points and lines contain nothing."""
        other = Spherical(shape)
        return (
            all(self._holds_point(point) for point in other._points)
            and all(self._holds_line(line) for line in other._lines)
            and all(self._holds_area(area) for area in other._areas)
        )

    def _holds_point(self, point: Vector) -> bool:
        if self.cap is not None:
            return angle(self._centre, point) <= self.cap.radius
        return any(area.contains(point) for area in self._areas)

    def _holds_line(self, line: list[Vector]) -> bool:
        if self.cap is not None:
            return self._cap_holds(line, pairwise(line))
        return any(
            all(area.holds_vertex(vertex) for vertex in line) and not _meets(area, pairwise(line))
            for area in self._areas
        )

    def _holds_area(self, area: Area) -> bool:
        if self.cap is not None:
            opposite = (-self._centre[0], -self._centre[1], -self._centre[2])
            return self._cap_holds(area.rings[0].vertices, area.rings[0].edges()) and not area.contains(opposite)
        return any(_holds(own, area) for own in self._areas)

    def _cap_holds(self, vertices: Sequence[Vector], edges: Iterator[tuple[Vector, Vector]]) -> bool:
        assert self.cap is not None
        if not all(angle(self._centre, vertex) <= self.cap.radius for vertex in vertices):
            return False
        opposite = (-self._centre[0], -self._centre[1], -self._centre[2])
        return self.cap.radius <= math.pi / 2 or all(
            distance(opposite, *edge) >= math.pi - self.cap.radius for edge in edges
        )

    def intersects(self, shape: Shape) -> bool:
        """True if the shapes have a point in common."""
        other = Spherical(shape)
        return any(self._touches_point(point) for point in other._points) or any(
            self._touches(vertices, edges, area) for vertices, edges, area in other._outlines()
        )

    def _outlines(self) -> Iterator[tuple[Sequence[Vector], list[tuple[Vector, Vector]], Area | None]]:
        for line in self._lines:
            yield line, list(pairwise(line)), None
        for area in self._areas:
            yield area.rings[0].vertices, list(area.edges()), area

    def _touches_point(self, point: Vector) -> bool:
        return (
            point in self._points
            or any(distance(point, *edge) <= _TOUCHES for line in self._lines for edge in pairwise(line))
            or any(area.contains(point) for area in self._areas)
        )

    def _touches(self, vertices: Sequence[Vector], edges: list[tuple[Vector, Vector]], area: Area | None) -> bool:
        for point in self._points:
            if area.contains(point) if area is not None else any(distance(point, *edge) <= _TOUCHES for edge in edges):
                return True
        for own_vertices, own_edges, own_area in self._outlines():
            if own_area is not None and any(own_area.contains(vertex) for vertex in vertices):
                return True
            if area is not None and any(area.contains(vertex) for vertex in own_vertices):
                return True
            if own_area is None or area is None:
                shared_vertices = set(own_vertices) & set(vertices) if own_area is None and area is None else ()
                if shared_vertices:
                    return True
            if any(crosses(*own_edge, *other) for own_edge in own_edges for other in edges):
                return True
        return False


def _meets(area: Area, edges: Iterator[tuple[Vector, Vector]]) -> bool:
    own = list(area.edges())
    return any(crosses(*edge, *own_edge) for edge in edges for own_edge in own)


def _holds(outer: Area, inner: Area) -> bool:
    """True if one polygon lies inside another: no edges cross, and no part of the outer border is inside the
    inner one.
    """
    ring = inner.rings[0]
    for own in outer.rings:
        if set(own.vertices) == set(ring.vertices):
            return (ring.vertices[0], ring.vertices[1]) in own.edges()
    if _meets(outer, inner.edges()) or not all(outer.holds_vertex(vertex) for vertex in ring.vertices):
        return False
    return not any(
        inner.contains(vertex) and vertex not in ring.vertices for own in outer.rings for vertex in own.vertices
    )


def distance(point: Vector, start: Vector, end: Vector) -> float:
    """Return the radians from a point to the nearest point of an arc."""
    normal = cross(start, end)
    length = math.hypot(*normal)
    if length and dot(cross(normal, start), point) > 0 > dot(cross(normal, end), point):
        return math.asin(min(1.0, abs(dot(normal, point)) / length))
    return min(angle(point, start), angle(point, end))
