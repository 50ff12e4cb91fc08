"""Points in their usual encodings: distances from another point, and tests of lying in a circle.

A plain point is a GeoJSON object with its two fields and nothing else, or a pair of finite numbers; there is no array
on the path to it. It is tested without decoding. `docstore.query.geo` handles other encodings.

Invariant: for plain points `docstore.query.geo` returns the same; distances are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.kernel.match.predicate import PathPredicate

if not cython.compiled:
    from math import atan2, cos, fabs, sin, sqrt

    from docstore.bson.number import integer_at
    from docstore.bson.walk import (
        ARRAY,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        STRING,
        document_stop,
        double_at,
        find,
        int32_at,
        part,
        value_end,
    )

_RADIANS: cython.double = 3.141592653589793 / 180.0
_DOUBTFUL: cython.double = 1e-12
"""Radians from the border of a circle within which `otherwise` decides."""

_TYPE: bytes = b"type"
_COORDINATES: bytes = b"coordinates"
_POINT: bytes = b"\x06\0\0\0Point\0"
_BESIDE_COORDINATES: cython.Py_ssize_t = 4 + 16 + 13 + 1
"""Bytes of a plain GeoJSON point besides those of its coordinates."""


class Vector:
    """A point of the unit sphere."""

    x: cython.double
    y: cython.double
    z: cython.double

    def __init__(self, longitude: cython.double, latitude: cython.double) -> None:
        self.turn_to(longitude, latitude)

    def turn_to(self, longitude: cython.double, latitude: cython.double) -> None:
        """Make it the point of other degrees."""
        across: cython.double = longitude * _RADIANS
        along: cython.double = latitude * _RADIANS
        self.x = cos(along) * cos(across)
        self.y = cos(along) * sin(across)
        self.z = sin(along)

    @cython.exceptval(check=False)
    def angle(self, x: cython.double, y: cython.double, z: cython.double) -> cython.double:
        """Return the radians to another point, rounded like plain arithmetic."""
        across: cython.double = self.y * z - self.z * y
        along: cython.double = self.z * x - self.x * z
        up: cython.double = self.x * y - self.y * x
        return atan2(sqrt(across * across + along * along + up * up), self.x * x + self.y * y + self.z * z)


class PlainPoint:
    """The point that was read last: (x, y), and the offsets of its value in the document."""

    x: cython.double
    y: cython.double
    on_sphere: cython.bint
    code: cython.int
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t

    def __init__(self) -> None:
        self.x = self.y = 0.0
        self.on_sphere = False
        self.code = 0
        self.at = self.end = 0

    def read_at(self, raw: bytes, names: list[bytes]) -> cython.bint:
        """Read a plain point at the path. False, without reading, if there is none."""
        name: bytes
        start: cython.Py_ssize_t = 0
        limit: cython.Py_ssize_t = len(raw)
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t
        code: cython.int = OBJECT
        for name in names:
            if code != OBJECT:
                return False
            stop = document_stop(raw, start, limit)
            at = find(raw, start, limit, name)
            if at < 0:
                return False
            code = raw[at]
            start = at + len(name) + 2
            limit = value_end(raw, code, start, stop)
        return self.read(code, raw, start, limit)

    def read(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Read the value as a plain point. False, without reading, if it is none."""
        kind: cython.Py_ssize_t
        coordinates: cython.Py_ssize_t
        if code == ARRAY:
            if not self._read_pair(raw, at, end):
                return False
        elif code == OBJECT:
            kind = find(raw, at, end, _TYPE)
            coordinates = find(raw, at, end, _COORDINATES)
            if kind < 0 or coordinates < 0 or raw[kind] != STRING or raw[coordinates] != ARRAY:
                return False
            coordinates += 13
            if (
                end - coordinates < 5
                or end - at != _BESIDE_COORDINATES + int32_at(raw, coordinates)
                or not _is_point(raw, kind + 6)
            ):
                return False
            if not self._read_pair(raw, coordinates, coordinates + int32_at(raw, coordinates)) or not self.on_sphere:
                return False
        else:
            return False
        self.code = code
        self.at = at
        self.end = end
        return True

    def _read_pair(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Read an array of exactly two finite numbers; False if it is not one."""
        second: cython.Py_ssize_t
        width: cython.Py_ssize_t
        if end - at < 19 or raw[at + 5] != 0x30 or raw[at + 6] != 0:
            return False
        width = _width(raw[at + 4])
        second = at + 7 + width
        if width == 0 or second + 3 > end or raw[second + 1] != 0x31 or raw[second + 2] != 0:
            return False
        width = _width(raw[second])
        if width == 0 or second + 3 + width + 1 != end:
            return False
        self.x = _double_of(raw[at + 4], raw, at + 7)
        self.y = _double_of(raw[second], raw, second + 3)
        self.on_sphere = -180.0 <= self.x <= 180.0 and -90.0 <= self.y <= 90.0
        return self.on_sphere or (self.x - self.x == 0.0 and self.y - self.y == 0.0)


@cython.exceptval(check=False)
def _is_point(raw: bytes, at: cython.Py_ssize_t) -> cython.bint:
    index: cython.Py_ssize_t
    for index in range(10):
        if raw[at + index] != _POINT[index]:
            return False
    return True


@cython.exceptval(check=False)
def _width(code: cython.int) -> cython.Py_ssize_t:
    """Return the bytes of a number; 0 for decimals and other types."""
    if code == INT32:
        return 4
    return 8 if code in (DOUBLE, INT64) else 0


@cython.exceptval(check=False)
def _double_of(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.double:
    number: cython.longlong
    if code == DOUBLE:
        return double_at(raw, at)
    number = integer_at(code, raw, at)
    return cython.cast(cython.double, number)


class DistanceFrom:
    """Distances from `centre` to the plain points at a path: in the plane, or on the sphere in `unit` for a radian."""

    _names: list[bytes]
    _point: PlainPoint
    _vector: Vector
    _centre: Vector
    _x: cython.double
    _y: cython.double
    _spherical: cython.bint
    _unit: cython.double

    def __init__(self, path: str, centre: tuple[float, float], spherical: bool, unit: float) -> None:
        self._names = [encoded_name(name) for name in path.split(".")]
        self._point = PlainPoint()
        self._x, self._y = centre
        self._centre = Vector(self._x, self._y)
        self._vector = Vector(0.0, 0.0)
        self._spherical = spherical
        self._unit = unit

    def measured(self, raw: bytes) -> tuple[float, Value] | None:
        """Return (distance, the point's value) of a document; None if it has no plain point on the sphere, or plane."""
        distance: cython.double = self.distance(raw)
        if distance < 0.0:
            return None
        return distance, (self._point.code, part(raw, self._point.at, self._point.end))

    @cython.exceptval(-2.0, check=True)
    def distance(self, raw: bytes) -> cython.double:
        """Return the distance of a document; a negative number if `measured` returns None."""
        across: cython.double
        along: cython.double
        point: PlainPoint = self._point
        if not point.read_at(raw, self._names):
            return -1.0
        if self._spherical:
            if not point.on_sphere:
                return -1.0
            self._vector.turn_to(point.x, point.y)
            return self._centre.angle(self._vector.x, self._vector.y, self._vector.z) * self._unit
        across = self._x - point.x
        along = self._y - point.y
        return sqrt(across * across + along * along)


class WithinCircle(PathPredicate):
    """A geometry lies within `radius` (radians) of a centre; `otherwise` decides for other values than plain points,
    and near the border.
    """

    _point: PlainPoint
    _vector: Vector
    _centre: Vector
    _radius: cython.double
    _otherwise: Callable[[Value], bool]

    def __init__(
        self, path: str, centre: tuple[float, float], radius: float, otherwise: Callable[[Value], bool]
    ) -> None:
        super().__init__(path, True)
        self._point = PlainPoint()
        self._centre = Vector(centre[0], centre[1])
        self._vector = Vector(0.0, 0.0)
        self._radius = radius
        self._otherwise = otherwise

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        angle: cython.double
        if code not in (OBJECT, ARRAY):
            return False
        if self._point.read(code, raw, at, end) and self._point.on_sphere:
            self._vector.turn_to(self._point.x, self._point.y)
            angle = self._centre.angle(self._vector.x, self._vector.y, self._vector.z)
            if fabs(angle - self._radius) > _DOUBTFUL:
                return angle < self._radius
        return bool(self._otherwise((code, part(raw, at, end))))
