"""Geometry operators: `$geoWithin`, `$geoIntersects`, and `$near` with its variants.

`$geoWithin` and `$geoIntersects` test each value. `$near` is an order that only a geometry index provides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import Near, ValueTest
from docstore.query.geo import plane, sphere
from docstore.query.geo.cell_keys import Region
from docstore.query.geo.geojson import on_sphere, parse_geometry, parse_pair, refused, stored_shape
from docstore.query.geo.shapes import Point, Position, Shape, is_on_sphere, single_parts
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, number_of

Element = tuple[str, int, bytes]

NEAR = frozenset(("$geoNear", "$near", "$nearSphere"))
WITHIN = frozenset(("$geoWithin", "$within"))
GEO_OPERATORS = NEAR | WITHIN | {"$geoIntersects"}

_CODES = {"$maxDistance": (16895, 16896), "$minDistance": (16893, 16894)}
"""Codes for distances beside the operator: for one that is not a number, for a negative one."""


def parse_geo(path: str, fields: Sequence[Element]) -> ValueTest | Near:
    """Return the condition of an operator document with a geometry operator."""
    name, code, data = fields[0]
    if name in NEAR:
        return _parse_near(path, fields)
    spare = next((field for field in fields[1:] if name in GEO_OPERATORS or field[0] in GEO_OPERATORS), None)
    if spare is not None:
        if spare[0] in NEAR:
            raise refused(f"near must be first in: {_display_fields(fields)}")
        raise refused(f"can't parse extra field: {spare[0]}: {display(spare[1:])}")
    return _parse_relation(path, name, (code, data))


def _display_fields(fields: Sequence[Element]) -> str:
    return "{ " + ", ".join(f"{name}: {display((code, data))}" for name, code, data in fields) + " }"


def _parse_relation(path: str, name: str, value: Value) -> ValueTest:
    if value[0] != OBJECT:
        raise refused("geometry must be an object")
    is_within = name in WITHIN
    region: Region | None = None
    for specifier, code, data in elements(value[1]):
        if specifier == "$uniqueDocs":
            continue
        region = _parse_region(specifier, (code, data), is_within)
    if region is None:
        raise refused("geo query doesn't have any geometry")
    if is_within:
        if isinstance(region, sphere.Spherical) and not region.has_inside:
            raise refused(f"{name} not supported with provided geometry: {display(value)}")
        return ValueTest(path, _inside(region), name, value, region)
    if not isinstance(region, sphere.Spherical):
        raise refused(f"$geoIntersect not supported with provided geometry: {display(value)}")
    return ValueTest(path, _touching(region), name, value, region)


def _inside(region: Region) -> Callable[[Value], bool]:
    def test(value: Value) -> bool:
        shape = stored_shape(value)
        if shape is None:
            return False
        if isinstance(region, sphere.Spherical):
            return _fits_sphere(shape) and region.contains(shape)
        return plane.contains(region, shape)

    return test


def _touching(region: sphere.Spherical) -> Callable[[Value], bool]:
    def test(value: Value) -> bool:
        shape = stored_shape(value)
        return shape is not None and _fits_sphere(shape) and region.intersects(shape)

    return test


def _fits_sphere(shape: Shape) -> bool:
    return all(part.on_sphere for part in single_parts(shape) if isinstance(part, Point))


def _parse_region(specifier: str, value: Value, is_within: bool) -> Region:
    if specifier == "$geometry" and value[0] == OBJECT:
        return sphere.Spherical(parse_geometry(value))
    if specifier == "$geometry" and value[0] == ARRAY:
        return sphere.Spherical(parse_pair(value))
    parse = _REGIONS.get(specifier)
    if parse is None or value[0] not in (ARRAY, OBJECT):
        raise refused(f"unknown geo specifier: {specifier}: {display(value)}")
    return parse([(code, data) for _, code, data in elements(value[1])])


def _parse_box(members: Sequence[Value]) -> Region:
    corners = [_corner(member) for member in _padded(members, 2)[:2]]
    return plane.Box((corners[0], corners[1]))


def _corner(value: Value) -> Position:
    """Return the corner of a plane region, written as exactly two numbers. Error: BadValue."""
    at = parse_pair(value).at
    if len(values(value[1])) > 2:
        raise refused("Point must only contain two numeric elements")
    return at


def _padded(members: Sequence[Value], length: int) -> list[Value]:
    """Return the members, padded with a value that fails every later check."""
    return [*members, *([(0, b"")] * (length - len(members)))]


def _parse_center(members: Sequence[Value]) -> Region:
    centre, radius, *extra_members = _padded(members, 2)
    at = _corner(centre)
    return plane.Circle(at, _radius(radius, extra_members))


def _parse_cap(members: Sequence[Value]) -> Region:
    centre, radius, *extra_members = _padded(members, 2)
    _corner(centre)
    at = on_sphere(centre)
    return sphere.Spherical(sphere.Cap(at, _radius(radius, extra_members)))


def _radius(value: Value, extra: Sequence[Value]) -> float:
    radius = float(number_of(value)) if value[0] in NUMBERS else math.nan
    if not radius >= 0:
        raise refused("radius must be a non-negative number")
    if extra:
        raise refused("Only 2 fields allowed for circular region")
    return radius


def _parse_polygon(members: Sequence[Value]) -> Region:
    corners = tuple(map(_corner, members))
    if len(corners) < 3:
        raise refused("Polygon must have at least 3 points")
    return plane.Outline(corners)


_REGIONS: Mapping[str, Callable[[Sequence[Value]], Region]] = {
    "$box": _parse_box,
    "$center": _parse_center,
    "$centerSphere": _parse_cap,
    "$polygon": _parse_polygon,
}


def _parse_near(path: str, fields: Sequence[Element]) -> Near:
    _, code, data = fields[0]
    if code not in (ARRAY, OBJECT):
        raise refused(f"near must be first in: {_display_fields(fields)}")
    if _is_legacy((code, data)):
        return _near_pair(path, fields, (code, data))
    if len(fields) > 1:
        extra, *_ = fields[1:]
        raise refused(
            "geo near accepts just one argument when querying for a GeoJSON point. Extra field found:"
            f" {extra[0]}: {display(extra[1:])}"
        )
    centre: Position | None = None
    distances: dict[str, float] = {}
    for option, kind, content in elements(data):
        if option == "$geometry" and kind in (ARRAY, OBJECT):
            centre = _centre((kind, content))
        elif option in _CODES:
            distances[option] = _distance(option, (kind, content), (Code.BadValue, Code.BadValue))
        elif option != "$geometry":
            raise refused(f"invalid argument in geo near query: {option}")
    if centre is None:
        raise refused("$geometry is required for geo near query")
    return _near(path, fields, centre, geojson=True, distances=distances)


def _near(
    path: str, fields: Sequence[Element], centre: Position, *, geojson: bool, distances: Mapping[str, float]
) -> Near:
    spherical = geojson or [name for name, _, _ in fields if name in NEAR][-1] == "$nearSphere"
    least, greatest = distances.get("$minDistance", 0.0), distances.get("$maxDistance", math.inf)
    return Near(path, (OBJECT, document_from(fields)), centre, spherical, geojson, least, greatest)


def _is_legacy(value: Value) -> bool:
    """True if the argument itself is a point: coordinates with an optional greatest distance, or GeoJSON."""
    if value[0] == OBJECT and any(name == "type" for name, _, _ in elements(value[1])):
        return isinstance(stored_shape(value), Point)
    members = values(value[1])
    numbers = [member for member in members if member[0] in NUMBERS]
    finite = all(math.isfinite(float(number_of(member))) for member in numbers[:2])
    return len(members) in (2, 3) and len(numbers) == len(members) and finite


def _near_pair(path: str, fields: Sequence[Element], value: Value) -> Near:
    shape = stored_shape(value)
    assert isinstance(shape, Point), "two finite numbers, or a GeoJSON point"
    distances: dict[str, float] = {}
    if shape.legacy:
        members = values(value[1])
        if len(members) == 3:
            distances["$maxDistance"] = float(number_of(members[2]))
            if not distances["$maxDistance"] >= 0:
                raise CommandError(18522, "max distance must be non-negative")
        if fields[-1][0] == "$nearSphere" and not is_on_sphere(shape.at):
            raise refused("Legacy point is out of bounds for spherical query")
    for name, code, data in fields[1:]:
        if name in _CODES:
            distances[name] = _distance(name, (code, data), _CODES[name])
        elif name not in NEAR and name != "$uniqueDocs":
            raise CommandError(34413, f"invalid argument in geo near query: {name}")
    return _near(path, fields, shape.at, geojson=not shape.legacy, distances=distances)


def _centre(value: Value) -> Position:
    """Return the GeoJSON point that distances are measured from. Errors: BadValue unless it is such a point."""
    fields = {name: (code, data) for name, code, data in elements(value[1])}
    try:
        at = parse_pair(value).at if "type" not in fields else on_sphere(fields.get("coordinates"))
    except CommandError as error:
        geometry_text = display((OBJECT, value[1]))
        raise refused(f"invalid point in geo near query $geometry argument: {geometry_text}  {error}") from None
    if "type" not in fields:
        raise refused(f"$near requires geojson point, given {display((OBJECT, value[1]))}")
    return at


def _distance(name: str, value: Value, codes: tuple[int, int]) -> float:
    if value[0] not in NUMBERS:
        raise CommandError(codes[0], f"{name} must be a number")
    distance = float(number_of(value))
    if not distance >= 0:
        raise CommandError(codes[1], f"{name} must be non-negative")
    return distance
