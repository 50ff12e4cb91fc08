"""`$geoNear`: the documents of the collection by distance from a point, with the distance in a field.

The stage has two parts: a condition of the pipeline's leading find, which yields the documents in order, and a run over
these documents that computes each distance again to add the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import Declaration, Environment, Pipeline, PlainStage, Position, SplitStage, Stage
from docstore.aggregation.stages.limit import leading_limit
from docstore.aggregation.streams import StageRun, Streaming
from docstore.bson.build import append_fields, document_from
from docstore.bson.walk import ARRAY, DOUBLE, EMPTY_DOCUMENT, OBJECT, STRING, Value, elements, get_field
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import MATCH_ALL, Filter, Near, conjunction
from docstore.query.find import FindQuery
from docstore.query.geo.distances import distance_from, nearest
from docstore.query.geo.operators import parse_geo
from docstore.query.sort import Sort
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import NULL_VALUE, NUMBERS, double_value, is_true, number_of, text_of, type_name

_GONE = {
    "limit": (50858, "$geoNear no longer supports the 'limit' parameter. Use a $limit stage instead."),
    "num": (50857, "$geoNear no longer supports the 'num' parameter. Use a $limit stage instead."),
    "start": (50856, "$geoNear no longer supports the 'start' argument."),
}


_COPIED_FREELY = 1 << 20


@dataclass(frozen=True, slots=True)
class GeoNear(PlainStage):
    """The stage. `near` has no path if it refers to the only geo index."""

    raw: bytes
    near: Near
    filter: Filter
    distance_field: str
    location_field: str | None
    multiplier: float

    @property
    def query(self) -> bytes:
        """The additional filter, as specified."""
        options = elements(elements(self.raw)[0][2])
        return next((data for name, _, data in options if name == "query"), EMPTY_DOCUMENT)

    @property
    def leading_filter(self) -> Filter | None:
        return self.filter

    @property
    def condition(self) -> Filter:
        """The filter of the leading find: the distance condition, which orders documents, and the additional filter."""
        return self.near if self.filter == MATCH_ALL else conjunction([self.near, self.filter])

    @property
    def order(self) -> Sort:
        """The output order, as a sort by the fields added."""
        return Sort(((self.distance_field, 1),))

    def narrow_find(self, query: FindQuery) -> FindQuery:
        return replace(query, filter=self.condition)

    def split(self) -> SplitStage | None:
        return SplitStage(self.raw, order=self.order)

    def at(self, path: str) -> GeoNear:
        """Return the stage over an index of that path."""
        return replace(self, near=replace(self.near, path=path))

    def start(self, environment: Environment) -> StageRun:
        return Streaming(self.measured)

    def measured(self, documents: list[bytes]) -> list[bytes]:
        """Return the documents with their distances."""
        if "." in self.distance_field or self.location_field is not None:
            return [self._measured(raw) for raw in documents]
        measure, name, multiplier = distance_from(self.near).measured, self.distance_field, self.multiplier
        header = bytes((DOUBLE,)) + name.encode() + b"\0"
        results: list[bytes] = []
        for raw in documents:
            plain = measure(raw) if len(raw) <= _COPIED_FREELY and get_field(raw, name) is None else None
            if plain is None:
                results.append(self._measured(raw))
            else:
                results.append(append_fields(raw, header + double_value(plain[0] * multiplier)[1]))
        return results

    def _measured(self, raw: bytes) -> bytes:
        match = nearest(self.near, raw)
        assert match is not None, "the find gives nothing without a distance"
        distance, location = match
        raw = _with(raw, self.distance_field.split("."), double_value(distance * self.multiplier))
        return raw if self.location_field is None else _with(raw, self.location_field.split("."), location)


def leading_geo_near(pipeline: Pipeline) -> GeoNear | None:
    """Return the stage that orders the documents by distance, always the first; None if there is none."""
    first = pipeline.stages[0] if pipeline.stages else None
    return first if isinstance(first, GeoNear) else None


def nearest_limit(pipeline: Pipeline) -> int:
    """Return the number of documents that the stages read, if a `$limit` bounds it; else 0."""
    if leading_geo_near(pipeline) is None:
        return 0
    return leading_limit(pipeline.stages[1:]) or 0


def _with(raw: bytes, names: list[str], value: Value) -> bytes:
    """Return the document with a value set at a path, creating or replacing documents along it."""
    fields = elements(raw)
    position = next((position for position, (name, _, _) in enumerate(fields) if name == names[0]), None)
    if len(names) > 1:
        inner = EMPTY_DOCUMENT if position is None or fields[position][1] != OBJECT else fields[position][2]
        value = OBJECT, _with(inner, names[1:], value)
    if position is None:
        return document_from([*fields, (names[0], *value)])
    fields[position] = (names[0], *value)
    return document_from(fields)


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(10065, "invalid parameter: expected an object ($geoNear)")
    options = {name: (code, data) for name, code, data in elements(value[1])}
    for name, (code, message) in _GONE.items():
        if name in options:
            raise CommandError(code, message)
    if "near" not in options:
        raise CommandError(5860400, "$geoNear requires a 'near' argument")
    near = parse_expression(options["near"], query_context=query_context)
    if not near.is_constant:
        raise CommandError(5860402, "$geoNear requires a constant near argument")
    point = near.constant or NULL_VALUE
    if point[0] not in (ARRAY, OBJECT):
        raise CommandError(5860401, "$geoNear requires near argument to be a GeoJSON object or a legacy point(array)")
    query = options.get("query", (OBJECT, EMPTY_DOCUMENT))
    if query[0] != OBJECT:
        raise CommandError(Code.TypeMismatch, "query must be an object")
    excluded = query_context.excluded | {"$where"}
    stage = GeoNear(
        document_from([("$geoNear", *value)]),
        _near(options, point),
        parse_filter(query[1], query_context=replace(query_context, excluded=excluded)),
        _field(options, "distanceField", 16606, "$geoNear requires a 'distanceField' option as a String"),
        _field(options, "includeLocs", 16607, "$geoNear requires that 'includeLocs' option is a String")
        if "includeLocs" in options
        else None,
        _number(options, "distanceMultiplier") if "distanceMultiplier" in options else 1.0,
    )
    return [stage]


def _near(options: Mapping[str, Value], point: Value) -> Near:
    """Return the equivalent condition of a filter."""
    operator = "$nearSphere" if is_true(options.get("spherical")) else "$near"
    fields = [(operator, *point)]
    for name in ("minDistance", "maxDistance"):
        if name in options:
            fields.append((f"${name}", *double_value(_number(options, name))))
    condition = parse_geo(_key(options), fields)
    assert isinstance(condition, Near), "the operator is one of nearness"
    return condition


def _number(options: Mapping[str, Value], name: str) -> float:
    value = options[name]
    if value[0] not in NUMBERS:
        raise CommandError(Code.TypeMismatch, f"{name} must be a number")
    number = float(number_of(value))
    if not number >= 0:
        raise CommandError(Code.BadValue, f"{name} must be nonnegative")
    return number


def _key(options: Mapping[str, Value]) -> str:
    if "key" not in options:
        return ""
    value = options["key"]
    if value[0] != STRING:
        raise CommandError(
            Code.TypeMismatch, f"$geoNear parameter 'key' must be of type string but found type: {type_name(value)}"
        )
    path = text_of(value)
    if not path:
        raise CommandError(Code.BadValue, "$geoNear parameter 'key' cannot be the empty string")
    check_field_path(path)
    return path


def _field(options: Mapping[str, Value], name: str, code: int, message: str) -> str:
    value = options.get(name)
    if value is None or value[0] != STRING:
        raise CommandError(code, message)
    path = text_of(value)
    check_field_path(path)
    return path


POSITION = Position(only_first=True, planned=True, in_facet=False)

DECLARATIONS = (Declaration("$geoNear", _parse, POSITION),)
