"""How far documents are from the point of a `$near`, as a function of the document alone.

The distance is that of the nearest of its geometries at the path. In the plane only points have one; on the sphere
lines and areas have too, zero inside. On the sphere it is counted in metres where the point is GeoJSON, else in
radians.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

from docstore.bson.walk import OBJECT, Value
from docstore.kernel.geometry.points import DistanceFrom
from docstore.query.filter.tree import Near
from docstore.query.geo import plane, sphere
from docstore.query.geo.cell_keys import Region
from docstore.query.geo.geojson import locations, stored_shape
from docstore.query.geo.shapes import Point, Position, Shape, single_parts
from docstore.query.geo.values_at_path import values_at

EARTH_METRES = 6_378_100.0
_ORDERED = struct.Struct(">d")


def nearest(near: Near, raw: bytes) -> tuple[float, Value] | None:
    """(distance, geometry) of the nearest geometry of a document; None where there is none to measure."""
    plain = distance_from(near).measured(raw)
    if plain is not None:
        return plain
    best: tuple[float, Value] | None = None
    for value in values_at((OBJECT, raw), near.path.split(".")):
        for location in locations(value):
            shape = stored_shape(location)
            found = None if shape is None else _distance(near, shape)
            if found is not None and (best is None or found < best[0]):
                best = found, location
    return best


def _distance(near: Near, shape: Shape) -> float | None:
    if not near.spherical:
        return _straight(near.centre, shape.at) if isinstance(shape, Point) else None
    if not all(part.on_sphere for part in single_parts(shape) if isinstance(part, Point)):
        return None
    centre = _vector(near.centre)
    apart = _angle(centre, sphere.vector(shape.at)) if isinstance(shape, Point) else sphere.Spherical(shape).gap(centre)
    return apart * unit_of(near)


def _angle(one: sphere.Vector, other: sphere.Vector) -> float:
    """Radians between two points, rounded as plain arithmetic rounds."""
    normal = sphere.cross(one, other)
    return math.atan2(math.sqrt(sphere.dot(normal, normal)), sphere.dot(one, other))


_vector = lru_cache(maxsize=8)(sphere.vector)
_distance_from = lru_cache(maxsize=8)(DistanceFrom)


def distance_from(near: Near) -> DistanceFrom:
    """What measures plain points."""
    return _distance_from(near.path, near.centre, near.spherical, unit_of(near))


def _straight(one: Position, other: Position) -> float:
    dx, dy = one[0] - other[0], one[1] - other[1]
    return math.sqrt(dx * dx + dy * dy)


def unit_of(near: Near) -> float:
    """How much of the unit of distances is one radian."""
    return EARTH_METRES if near.geojson else 1.0


def region_around(near: Near, radius: float) -> Region:
    """What lies within a distance, and a little more, since distances are rounded."""
    radius *= 1 + 1e-9
    if near.spherical:
        return sphere.Spherical(sphere.Cap(near.centre, radius / unit_of(near)))
    return plane.Circle(near.centre, radius)


@dataclass(frozen=True, slots=True)
class DistanceOrder:
    """The order of documents by their distance from the point."""

    near: Near

    def sort_key(self, raw: bytes) -> bytes:
        """What a document is ordered by: greater for one that is farther, greatest for one without a distance."""
        found = nearest(self.near, raw)
        return _ORDERED.pack(math.inf if found is None else found[0])
