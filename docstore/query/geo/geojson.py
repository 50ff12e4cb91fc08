"""Geometric values in documents and filters: GeoJSON and pairs of coordinates. All errors are BadValue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.geo.shapes import Group, Line, Point, Polygon, Position, Shape, is_on_sphere
from docstore.query.geo.sphere import check_rings
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, number_of, text_of

_WOUND = "urn:x-mongodb:crs:strictwinding:EPSG:4326"
_SPHERES = frozenset(("urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326", _WOUND))


def refused(reason: str) -> CommandError:
    return CommandError(Code.BadValue, reason)


def stored_shape(value: Value) -> Shape | None:
    """Return the geometry of a stored value; None if it is not a geometry."""
    if value[0] not in (ARRAY, OBJECT):
        # No error is made here: the numbers of a pair are tested, too.
        return None
    try:
        return parse_stored(value)
    except CommandError:
        return None


def parse_stored(value: Value) -> Shape:
    """Return the geometry of a stored value: a GeoJSON object or a pair of coordinates."""
    if value[0] not in (ARRAY, OBJECT):
        raise refused(f"geo element must be an array or object: {display(value)}")
    if value[0] == OBJECT and (_kind(value) is not None or not _begins_with_number(value)):
        return parse_geometry(value)
    return parse_pair(value)


def _begins_with_number(value: Value) -> bool:
    first = next(iter(elements(value[1])), None)
    return first is not None and first[1] in NUMBERS


def locations(value: Value) -> list[Value]:
    """Return the geometries in a stored value: itself, or the members of an array, or of a document, of pairs."""
    if value[0] == ARRAY or (value[0] == OBJECT and _kind(value) is None):
        members = values(value[1])
        if members and members[0][0] in (ARRAY, OBJECT):
            return members
    return [value]


def parse_pair(value: Value) -> Point:
    """Return the point of two coordinates: an array, or the first fields of a document."""
    return Point(_position(value, only=False), legacy=True)


def parse_geometry(value: Value) -> Shape:
    """Return the geometry of a GeoJSON object."""
    kind = _kind(value)
    parse = _KINDS.get(kind or "")
    if parse is None:
        raise refused(f"unknown GeoJSON type: {display(value)}")
    fields = {name: (code, data) for name, code, data in elements(value[1])}
    wound = _is_wound(fields)
    if wound and kind != "Polygon":
        raise refused("Strict winding order is only supported by Polygon")
    if kind == "GeometryCollection":
        return parse(fields.get("geometries"), False)
    return parse(fields.get("coordinates"), wound)


def _kind(value: Value) -> str | None:
    for name, code, data in elements(value[1]):
        if name == "type":
            return text_of((code, data)) if code == STRING else None
    return None


def _is_wound(fields: Mapping[str, Value]) -> bool:
    if "crs" not in fields:
        return False
    system = fields["crs"]
    if system[0] != OBJECT:
        raise refused("GeoJSON CRS must be an object")
    named = {name: (code, data) for name, code, data in elements(system[1])}
    if named.get("type", (0, b""))[0] != STRING or text_of(named["type"]) != "name":
        raise refused(f'GeoJSON CRS must have field "type": "name": {display(system)}')
    properties = named.get("properties", (0, b""))
    if properties[0] != OBJECT:
        raise refused("CRS must have field 'properties' which is an object")
    names = [(code, data) for name, code, data in elements(properties[1]) if name == "name"]
    if not names or names[0][0] != STRING:
        raise refused("In CRS, 'properties.name' must be a string")
    if text_of(names[0]) not in _SPHERES:
        raise refused(f"Unknown CRS name: {text_of(names[0])}")
    return text_of(names[0]) == _WOUND


def _position(value: Value | None, *, only: bool = True) -> Position:
    """Return the coordinates in an array or a document. `only`: after the first two, members must be numbers."""
    if value is None or value[0] not in (ARRAY, OBJECT):
        raise refused("Point must be an array or object")
    members = [(code, data) for _, code, data in elements(value[1])]
    numbers = members if only else members[:2]
    if len(members) < 2 or any(member[0] not in NUMBERS for member in numbers[:2]):
        raise refused("Point must only contain numeric elements")
    x, y = (float(number_of(member)) for member in members[:2])
    if not (math.isfinite(x) and math.isfinite(y)):
        raise refused("Point coordinates must be finite numbers")
    return x, y


def on_sphere(value: Value | None) -> Position:
    """Return a longitude and a latitude."""
    at = _position(value)
    if not is_on_sphere(at):
        raise refused(f"longitude/latitude is out of bounds, lng: {at[0]:g} lat: {at[1]:g}")
    return at


def _array(value: Value | None, subject: str) -> list[Value]:
    if value is None or value[0] != ARRAY:
        raise refused(f"{subject} must be an array")
    return values(value[1])


def _several(value: Value | None, subject: str) -> list[Value]:
    members = _array(value, subject)
    if not members:
        raise refused(f"{subject} must have at least 1 element")
    return members


def _point(value: Value | None, wound: bool) -> Shape:
    return Point(on_sphere(value))


def _positions(value: Value, subject: str) -> list[Position]:
    """Return the positions, without those equal to the one before."""
    positions: list[Position] = []
    for member in _array(value, subject):
        at = on_sphere(member)
        if not positions or at != positions[-1]:
            positions.append(at)
    return positions


def _line(value: Value | None, wound: bool) -> Shape:
    label = "GeoJSON LineString coordinates"
    _array(value, label)
    assert value is not None
    vertices = _positions(value, label)
    if len(vertices) < 2:
        raise refused(f"GeoJSON LineString must have at least 2 vertices: {display(value)}")
    return Line(tuple(vertices))


def _polygon(value: Value | None, wound: bool) -> Shape:
    rings = [_ring(member) for member in _array(value, "Polygon coordinates")]
    if not rings:
        raise refused("Polygon has no loops.")
    if wound and len(rings) > 1:
        raise refused("Only one simple loop is allowed in a big polygon")
    polygon = Polygon(tuple(rings), wound)
    reason = check_rings(polygon)
    if reason is not None:
        raise refused(f"{reason}: {display((ARRAY, value[1]) if value is not None else (ARRAY, b''))}")
    return polygon


def _ring(value: Value) -> tuple[Position, ...]:
    vertices = _positions(value, "Polygon loop")
    if not vertices:
        raise refused(f"Loop has no vertices: {display(value)}")
    if len(vertices) == 1 or vertices[0] != vertices[-1]:
        raise refused(f"Loop is not closed: {display(value)}")
    if len(set(vertices)) < 3:
        raise refused(f"Loop must have at least 3 different vertices: {display(value)}")
    return tuple(vertices[:-1])


def _group_of(parse: Callable[[Value | None, bool], Shape], subject: str) -> Callable[[Value | None, bool], Shape]:
    return lambda value, wound: Group(tuple(parse(member, False) for member in _several(value, subject)))


def _collection(value: Value | None, wound: bool) -> Shape:
    parts: list[Shape] = []
    for member in _several(value, "GeometryCollection geometries"):
        if member[0] != OBJECT or _kind(member) == "GeometryCollection":
            raise refused("A GeometryCollection holds geometries that are no collections")
        parts.append(parse_geometry(member))
    return Group(tuple(parts))


_KINDS: Mapping[str, Callable[[Value | None, bool], Shape]] = {
    "GeometryCollection": _collection,
    "LineString": _line,
    "MultiLineString": _group_of(_line, "MultiLineString coordinates"),
    "MultiPoint": _group_of(_point, "MultiPoint coordinates"),
    "MultiPolygon": _group_of(_polygon, "MultiPolygon coordinates"),
    "Point": _point,
    "Polygon": _polygon,
}
