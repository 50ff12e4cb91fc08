"""Distances of documents from the point of a `$near`, computed from the document alone.

A document's distance is that of its nearest geometry at the path. In the plane only points have one. On the sphere
lines and areas have one too, zero inside an area. The unit on the sphere is metres for a GeoJSON point, else radians.
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
    """Return (distance, geometry) of the nearest geometry of a document; None if it has none to measure."""
    plain = distance_from(near).measured(raw)
    if plain is not None:
        return plain
    best: tuple[float, Value] | None = None
    for value in values_at((OBJECT, raw), near.path.split(".")):
        for location in locations(value):
            shape = stored_shape(location)
            distance = None if shape is None else _distance(near, shape)
            if distance is not None and (best is None or distance < best[0]):
                best = distance, location
    return best


def _distance(near: Near, shape: Shape) -> float | None:
    if not near.spherical:
        return _straight(near.centre, shape.at) if isinstance(shape, Point) else None
    if not all(part.on_sphere for part in single_parts(shape) if isinstance(part, Point)):
        return None
    centre = _vector(near.centre)
    angle = _angle(centre, sphere.vector(shape.at)) if isinstance(shape, Point) else sphere.Spherical(shape).gap(centre)
    return angle * unit_of(near)


def _angle(first: sphere.Vector, second: sphere.Vector) -> float:
    """Return the angle between two points in radians, rounded like plain arithmetic."""
    normal = sphere.cross(first, second)
    return math.atan2(math.sqrt(sphere.dot(normal, normal)), sphere.dot(first, second))


_vector = lru_cache(maxsize=8)(sphere.vector)
_distance_from = lru_cache(maxsize=8)(DistanceFrom)


def distance_from(near: Near) -> DistanceFrom:
    """Return the measure of distances to plain points."""
    return _distance_from(near.path, near.centre, near.spherical, unit_of(near))


def _straight(first: Position, second: Position) -> float:
    dx, dy = first[0] - second[0], first[1] - second[1]
    return math.sqrt(dx * dx + dy * dy)


def unit_of(near: Near) -> float:
    """Return the distance that one radian is, in the unit of `near`."""
    return EARTH_METRES if near.geojson else 1.0


def region_around(near: Near, radius: float) -> Region:
    """Return the region within a distance, slightly enlarged because distances are rounded."""
    radius *= 1 + 1e-9
    if near.spherical:
        return sphere.Spherical(sphere.Cap(near.centre, radius / unit_of(near)))
    return plane.Circle(near.centre, radius)


@dataclass(frozen=True, slots=True)
class DistanceOrder:
    """The order of documents by their distance from the point."""

    near: Near

    def sort_key(self, raw: bytes) -> bytes:
        """Return the document's sort key: greater for greater distances, greatest for a document without one."""
        measurement = nearest(self.near, raw)
        return _ORDERED.pack(math.inf if measurement is None else measurement[0])
