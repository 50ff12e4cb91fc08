"""Index keys of geometries, and the key ranges of a query's region.

A key is the number of a cell (`docstore.query.geo.sphere_cells`, `plane_cells`) as binary data of a fixed length. The
cells inside a cell are one range of keys. The format on disk:

* `2dsphere`: face (3 bits), place on the Z-order curve at the finest level (60 bits), level (5 bits), in 9 bytes;
* `2d`: place on the Z-order curve, in the upper bits of 8 bytes.

A geometry has the keys of the cells that cover it. If it meets a region, one of its cells lies inside a cell of the
region's covering, or contains one. The filter then tests the documents found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import starmap

from docstore.bson.walk import ARRAY, BINARY, NULL, OBJECT, UNDEFINED, Value, elements
from docstore.errors import CommandError
from docstore.kernel.geometry.cells import PointKeys, SphereDistances, cap_ranges, cell_key, key_ranges
from docstore.kernel.geometry.nearby import CellDistances
from docstore.kernel.geometry.plane import PlaneDistances, SquareKeys, cell_ranges
from docstore.kernel.keys.encoding import KEY_OF_NULL
from docstore.query.geo import plane, sphere
from docstore.query.geo.geojson import parse_stored, refused
from docstore.query.geo.plane_cells import Square
from docstore.query.geo.shapes import Group, Line, Point, Polygon, Position, Shape, single_parts
from docstore.query.geo.sphere_cells import LEVELS, covering
from docstore.query.limits import MAX_SEPARATE_POINTS
from docstore.query.plan.intervals import Range, Ranges
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, number_of

Region = plane.Region | sphere.Spherical

Reach = tuple[CellDistances, float]
"""(measure of the cells of keys, the distance beyond which a key's geometry cannot meet a region)."""

_ROUNDING = 1e-14
_DOCUMENT_CELLS = 16
REGION_CELLS = 24
"""The default number of cells that cover a region."""

NOT_GEOMETRY = 16755
"""The code of the error for a document whose geometry a `2dsphere` index cannot hold."""

NOT_LOCATIONS = 16804

NOT_PAIRS = frozenset((13026, 13027, 13068, NOT_LOCATIONS))
"""The codes of the errors for documents whose pairs a `2d` index cannot hold."""


@dataclass(frozen=True, slots=True)
class SphereKeys:
    """A `2dsphere` index. In `version` 1, documents without geometry have a key too."""

    version: int = 3
    coarsest: int = 0
    finest: int = LEVELS

    def serves(self, *, spherical: bool, geojson: bool) -> bool:
        """True if the index finds distances measured so (`spherical`) from a point in this notation (`geojson`)."""
        return spherical

    def cells(self, value: Value) -> set[bytes]:
        """Return the keys of one stored value; none for one that counts as missing. Error: BadValue for a
        non-geometry.
        """
        if self.version > 1 and _is_nothing(value):
            return set()
        shape = parse_stored(value)
        if isinstance(shape, Point) and shape.on_sphere:
            return {_points(self.finest).of_place(*shape.at)}
        parts = list(single_parts(shape))
        if self.version == 1 and isinstance(shape, Group):
            raise refused(f"given geometry can't be indexed in the old index format: {display(value)}")
        if any(isinstance(part, Polygon) and part.wound for part in parts):
            raise refused(f"can't index geometry with strict winding order: {display(value)}")
        points = [part for part in parts if isinstance(part, Point)]
        if not all(point.on_sphere for point in points):
            raise refused(f"can't project geometry into spherical CRS: {display(value)}")
        shapes: list[Shape] = [part for part in parts if isinstance(part, Line | Polygon)]
        if len(points) > MAX_SEPARATE_POINTS:
            shapes, points = [*shapes, *points], []
        keys = {_points(self.finest).of_place(*point.at) for point in points}
        if shapes:
            region = sphere.Spherical(Group(tuple(shapes)))
            keys.update(map(cell_key, covering(region, _DOCUMENT_CELLS, coarsest=self.coarsest, finest=self.finest)))
        return keys

    def ranges(self, region: Region, most: int = REGION_CELLS, *, single: bool = False) -> Ranges | None:
        """Return the key ranges of geometries that meet the region, from a covering of about `most` cells; None for a
        region of the plane. `single`: no geometry has several keys, so that each key is of a finest cell.
        """
        key_pairs = self.pairs(region, most, single=single)
        return None if key_pairs is None else tuple(starmap(Range, key_pairs))

    def pairs(self, region: Region, most: int, *, single: bool) -> list[tuple[bytes, bytes]] | None:
        """Return the `ranges` as pairs."""
        if not isinstance(region, sphere.Spherical):
            return None
        coarsest = self.finest if single else self.coarsest
        if region.cap is not None:
            return cap_ranges(region.cap.centre, region.cap.radius, most, coarsest, self.finest)
        return key_ranges(covering(region, most), coarsest, self.finest)

    def points_at(self, path: str) -> PointKeys:
        """Return the function that computes the keys of documents with a plain point at the path."""
        return PointKeys(path, self.finest)

    def key_at(self, at: Position) -> bytes:
        """Return the key of the finest cell of a longitude and a latitude."""
        return _points(LEVELS).of_place(*at)

    def distances(self, centre: Position, unit: float) -> CellDistances:
        """Return the measure of distances from a point to the cells of keys, in `unit` for a radian."""
        return SphereDistances(centre, unit)

    def reach(self, region: Region) -> Reach | None:
        """Return the test by which keys that cannot meet the region are skipped; None unless it is a circle."""
        if not isinstance(region, sphere.Spherical) or region.cap is None:
            return None
        return self.distances(region.cap.centre, 1.0), region.cap.radius


@lru_cache(maxsize=LEVELS + 1)
def _points(finest: int) -> PointKeys:
    return PointKeys("", finest)


def _is_nothing(value: Value) -> bool:
    return value[0] in (NULL, UNDEFINED) or (value[0] in (ARRAY, OBJECT) and not elements(value[1]))


def cell_value(key: bytes) -> Value:
    """Return the value that a geometry key encodes: the number of a cell, or null."""
    if key == KEY_OF_NULL:
        return NULL, b""
    return BINARY, int.from_bytes(key[1:5], "big").to_bytes(4, "little") + key[5:]


@dataclass(frozen=True, slots=True)
class PlaneKeys:
    """A `2d` index over a square of the plane."""

    square: Square

    def serves(self, *, spherical: bool, geojson: bool) -> bool:
        """True if the index finds these distances (see `SphereKeys.serves`)."""
        return not geojson

    def check_centre(self, at: Position) -> None:
        """Error: 16433 for a position outside the square."""
        if not self.square.holds(at):
            raise CommandError(16433, self._outside())

    def cells(self, value: Value) -> list[bytes]:
        """Return the keys of the coordinate pairs in a stored value, with repetitions. Errors: `NOT_PAIRS`."""
        return [self.key_at(self._pair(members)) for members in _pairs(value)]

    def _pair(self, members: list[Value]) -> Position:
        if len(members) == 1:
            raise CommandError(13068, "geo field only has 1 element")
        if any(member[0] not in NUMBERS for member in members[:2]):
            raise CommandError(13026, "geo values must be 'legacy coordinate pairs' for 2d indexes")
        x, y = (float(number_of(member)) for member in members[:2])
        if not self.square.holds((x, y)):
            raise CommandError(13027, self._outside())
        return x, y

    def _outside(self) -> str:
        return f"point not in interval of [ {self.square.low:g}, {self.square.high:g} ]"

    def points_at(self, path: str) -> SquareKeys:
        """Return the function that computes keys, like `SphereKeys.points_at`."""
        return SquareKeys(path, self.square.low, self.square.high, self.square.bits)

    def key_at(self, at: Position) -> bytes:
        """Return the key of the cell of a position in the square."""
        return _point_keys(self.square).of_place(*at)

    def distances(self, centre: Position, unit: float) -> CellDistances:
        """Return the measure of distances, like `SphereKeys.distances`; `unit` is 0 for a distance in the plane."""
        low, high = self.square.low, self.square.high
        return PlaneDistances(centre, unit, low, high - low, self.square.spare(), self.square.bits)

    def reach(self, region: Region) -> Reach | None:
        """Return the test of keys, like `SphereKeys.reach`, for circles and boxes."""
        match region:
            case sphere.Spherical(cap=sphere.Cap(centre, radius)):
                return self.distances(centre, 1.0), radius
            case plane.Circle(centre, radius):
                return self.distances(centre, 0.0), radius
            case plane.Box(((a, b), (c, d))):
                low, side, spare = self.square.low, self.square.high - self.square.low, self.square.spare()
                # Rounding errors of the middle and the halves grow with the distance of the corners from the origin.
                across = abs(c - a) / 2 + _ROUNDING * (abs(a) + abs(c))
                half = across, abs(d - b) / 2 + _ROUNDING * (abs(b) + abs(d))
                return PlaneDistances(((a + c) / 2, (b + d) / 2), 0.0, low, side, spare, self.square.bits, half), spare
            case _:
                return None

    def ranges(self, region: Region, most: int = REGION_CELLS, *, single: bool = False) -> Ranges | None:
        """Return key ranges like `SphereKeys.ranges`, for positions in the region. None for a region of the sphere that
        is not a circle.
        """
        key_pairs = self.pairs(region, most, single=single)
        return None if key_pairs is None else tuple(starmap(Range, key_pairs))

    def pairs(self, region: Region, most: int, *, single: bool) -> list[tuple[bytes, bytes]] | None:
        """Return the `ranges` as pairs."""
        del single
        if isinstance(region, sphere.Spherical):
            if region.cap is None:
                return None
            regions: list[plane.Region] = list(_boxes(region.cap))
        else:
            regions = [region]
        return cell_ranges(self.square.covering(regions, most))


@lru_cache(maxsize=64)
def _point_keys(square: Square) -> SquareKeys:
    return SquareKeys("", square.low, square.high, square.bits)


GeoKeys = SphereKeys | PlaneKeys


def _pairs(value: Value) -> Iterator[list[Value]]:
    """Yield the members of each pair: the value itself, or its members if its first member is not a number."""
    if value[0] not in (ARRAY, OBJECT):
        return
    members = _members(value)
    if not members:
        return
    if members[0][0] in NUMBERS:
        yield members
        return
    for member in members:
        if member[0] not in (ARRAY, OBJECT):
            raise CommandError(NOT_LOCATIONS, "location object expected, location array not in correct format")
        if elements(member[1]):
            yield _members(member)


def _members(value: Value) -> list[Value]:
    return [(code, data) for _, code, data in elements(value[1])]


def _boxes(cap: sphere.Cap) -> Iterable[plane.Box]:
    """Return boxes of degrees that hold a circle on the sphere."""
    longitude, latitude = cap.centre
    radius = math.degrees(cap.radius) + 1e-9
    low, high = max(latitude - radius, -90.0), min(latitude + radius, 90.0)
    if low == -90 or high == 90:
        return [plane.Box(((-180, low), (180, high)))]
    ratio = math.sin(math.radians(radius)) / math.cos(math.radians(latitude))
    across = math.degrees(math.asin(min(1.0, ratio))) + 1e-9
    west, east = longitude - across, longitude + across
    boxes = [plane.Box(((west, low), (east, high)))]
    if west < -180:
        boxes.append(plane.Box(((west + 360, low), (180, high))))
    if east > 180:
        boxes.append(plane.Box(((-180, low), (east - 360, high))))
    return boxes
