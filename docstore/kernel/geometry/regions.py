"""Tests of points in a region of the plane: `$box`, `$center`, `$polygon` (`docstore.query.geo.plane`).

Plain points are tested without decoding, with the same result. `otherwise` decides for other values, and so near a
border that its arithmetic may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.geometry.points import PlainPoint
from docstore.kernel.match.predicate import PathPredicate

if not cython.compiled:
    from math import fabs, hypot

    from docstore.bson.walk import ARRAY, OBJECT, part

_DOUBTFUL: cython.double = 1e-12
"""The part of a radius from the border of a circle within which `otherwise` decides."""

_OUTSIDE: cython.int = 0
_INSIDE: cython.int = 1
_UNKNOWN: cython.int = 2


class _InPlane(PathPredicate):
    """A geometry lies in a region of the plane."""

    _point: PlainPoint
    _otherwise: Callable[[Value], bool]

    def __init__(self, path: str, otherwise: Callable[[Value], bool]) -> None:
        super().__init__(path, True)
        self._point = PlainPoint()
        self._otherwise = otherwise

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        kind: cython.int = _UNKNOWN
        if code not in (OBJECT, ARRAY):
            return False
        if self._point.read(code, raw, at, end):
            kind = self.judge(self._point.x, self._point.y)
        if kind != _UNKNOWN:
            return kind == _INSIDE
        return bool(self._otherwise((code, part(raw, at, end))))

    def judge(self, x: cython.double, y: cython.double) -> cython.int:
        """Return the side of the border on which a point lies."""
        raise NotImplementedError


class WithinBox(_InPlane):
    """The box from the least x and y to the greatest."""

    _low_x: cython.double
    _low_y: cython.double
    _high_x: cython.double
    _high_y: cython.double

    def __init__(
        self,
        path: str,
        least: tuple[float, float],
        greatest: tuple[float, float],
        otherwise: Callable[[Value], bool],
    ) -> None:
        super().__init__(path, otherwise)
        self._low_x, self._low_y = least
        self._high_x, self._high_y = greatest

    def judge(self, x: cython.double, y: cython.double) -> cython.int:
        return self._low_x <= x and x <= self._high_x and self._low_y <= y and y <= self._high_y


class WithinDisc(_InPlane):
    """A circle of the plane."""

    _x: cython.double
    _y: cython.double
    _radius: cython.double

    def __init__(
        self, path: str, centre: tuple[float, float], radius: float, otherwise: Callable[[Value], bool]
    ) -> None:
        super().__init__(path, otherwise)
        self._x, self._y = centre
        self._radius = radius

    def judge(self, x: cython.double, y: cython.double) -> cython.int:
        distance: cython.double = hypot(x - self._x, y - self._y)
        if fabs(distance - self._radius) > _DOUBTFUL * self._radius:
            return distance < self._radius
        return _UNKNOWN


class WithinOutline(_InPlane):
    """A polygon by the even-odd rule, with its corners and its horizontal and vertical sides."""

    xs: list[float]
    ys: list[float]

    def __init__(self, path: str, corners: Sequence[tuple[float, float]], otherwise: Callable[[Value], bool]) -> None:
        super().__init__(path, otherwise)
        self.xs = [x for x, _ in corners]
        self.ys = [y for _, y in corners]

    def judge(self, x: cython.double, y: cython.double) -> cython.int:
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(self.xs)
        ax: cython.double = self.xs[count - 1]
        ay: cython.double = self.ys[count - 1]
        bx: cython.double
        by: cython.double
        inside: cython.bint = False
        for index in range(count):
            bx = self.xs[index]
            by = self.ys[index]
            if bx == x and by == y:
                return _INSIDE
            if by == y and ay == y and min(ax, bx) <= x and x <= max(ax, bx):
                return _INSIDE
            if bx == x and ax == x and min(ay, by) <= y and y <= max(ay, by):
                return _INSIDE
            if (
                min(ay, by) < y
                and y <= max(ay, by)
                and x <= max(ax, bx)
                and (ax == bx or x <= (y - ay) * (bx - ax) / (by - ay) + ax)
            ):
                inside = not inside
            ax = bx
            ay = by
        return inside
