"""Buckets: documents that hold up to a thousand measurements of one series and of one span of time, by column.

    {_id, control: {version: 1, min: {FIELD: VALUE}, max: {FIELD: VALUE}}, meta: VALUE, data: {FIELD: {"0": VALUE}}}

Invariants of a bucket made here:

- `_id` begins with the seconds of `control.min.TIME`, which is the time of its first measurement, rounded down;
- every measurement lies in `[control.min.TIME, control.min.TIME + span)`, and `control.max.TIME` is the latest;
- the other fields of `control.min` and `control.max` are a field's least and greatest values; for embedded documents
  and arrays those of their members;
- the values of a field are comparable, so that every one lies between the least and the greatest;
- the names in a column are the positions of the measurements that have the field: 0, 1, ... in order of arrival;
  `data.TIME` has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

from docstore.bson.build import array_from, document_from
from docstore.bson.order import compare, type_class
from docstore.bson.walk import (
    ARRAY,
    DATE,
    OBJECT,
    Value,
    elements,
    encoded_name,
    get_field,
    get_path,
    value_count,
    values,
)
from docstore.errors import Code, CommandError
from docstore.kernel.series.bucket import Rules
from docstore.kernel.series.filling import Lane
from docstore.timeseries.definition import DATA, TimeseriesDefinition

MOST_MEASUREMENTS = 1000
MOST_BYTES = 125 * 1024

_NESTED = (OBJECT, ARRAY)


def time_and_metadata(definition: TimeseriesDefinition, raw: bytes) -> tuple[int, Value | None]:
    """(milliseconds since 1970, the metadata) of a measurement. Errors: BadValue without a time."""
    code, data = get_field(raw, definition.time_field) or (0, b"")
    if code != DATE:
        raise CommandError(
            Code.BadValue, f"'{definition.time_field}' must be present and contain a valid BSON UTC datetime value"
        )
    meta = None if definition.meta_field is None else get_field(raw, definition.meta_field)
    return int.from_bytes(data, "little", signed=True), meta


def check_indexed(raw: bytes, paths: Sequence[str]) -> None:
    """Raise 5930501 for an array on one of the paths: its minimum and maximum would both be arrays."""
    for path in paths:
        value: Value | None = (OBJECT, raw)
        for part in path.split("."):
            if value is None or value[0] != OBJECT:
                break
            value = get_field(value[1], part)
        if value is not None and value[0] == ARRAY:
            raise CommandError(5930501, "Indexed measurement field contains an array value")


def normalized(meta: Value) -> Value:
    """Return metadata in a bucket's form: with the fields of documents sorted by name, since their order does not
    distinguish series.
    """
    code, data = meta
    if code == OBJECT:
        fields = [(name, *normalized((kind, part))) for name, kind, part in elements(data)]
        return OBJECT, document_from(sorted(fields, key=itemgetter(0)))
    return (ARRAY, array_from([normalized(member) for member in values(data)])) if code == ARRAY else meta


def series_key(meta: Value | None) -> bytes:
    """Return a key that identifies the series of normalized metadata."""
    return b"" if meta is None else bytes((meta[0],)) + meta[1]


def measurement_count(raw: bytes, time_field: str) -> int:
    """Return how many measurements a bucket has."""
    times = get_path(raw, f"{DATA}.{time_field}") if "." not in time_field else None
    return 0 if times is None else value_count(times[1])


@lru_cache(maxsize=256)
def rules_of(definition: TimeseriesDefinition) -> Rules:
    """Return the rules for filling the buckets of a collection."""
    own = definition.meta_field
    names = encoded_name(definition.time_field), None if own is None else encoded_name(own)
    spans = definition.span_seconds * 1000, definition.rounding_seconds * 1000
    return Rules(*names, spans, (MOST_MEASUREMENTS, MOST_BYTES), _alike, extreme)


def lane_of(meta: Value | None) -> Lane:
    """The lane of the series of metadata as they come."""
    own = None if meta is None else normalized(meta)
    return Lane(series_key(own), own)


def _by_name(raw: bytes) -> dict[str, Value]:
    return {name: (code, data) for name, code, data in elements(raw)}


def _document(fields: dict[str, Value]) -> bytes:
    return document_from([(name, *value) for name, value in fields.items()])


def _alike(value: Value, other: Value) -> bool:
    """True if two values of a field may be in one bucket, where minimum and maximum must bound values of one type:
    they compare with each other, and so do the members that both have.
    """
    if type_class(value[0]) != type_class(other[0]):
        return False
    if value[0] == OBJECT:
        fields = _by_name(value[1])
        return all(name not in fields or _alike(fields[name], (code, data)) for name, code, data in elements(other[1]))
    if value[0] == ARRAY:
        return all(map(_alike, values(value[1]), values(other[1])))
    return True


def extreme(value: Value, other: Value, sign: int) -> Value:
    """Return the lesser of two values (-1) or the greater (1); of two documents, or two arrays, memberwise."""
    if value[0] in _NESTED and other[0] in _NESTED and value != other:
        if value[0] == OBJECT and other[0] == OBJECT:
            fields = _by_name(value[1])
            for name, code, data in elements(other[1]):
                field_value = fields.get(name)
                fields[name] = (code, data) if field_value is None else extreme(field_value, (code, data), sign)
            return OBJECT, _document(fields)
        if value[0] == other[0]:
            mine, theirs = values(value[1]), values(other[1])
            members = [
                extreme(my_member, their_member, sign) for my_member, their_member in zip(mine, theirs, strict=False)
            ]
            return ARRAY, array_from([*members, *(mine[len(members) :] or theirs[len(members) :])])
    return other if compare(other, value) * sign > 0 else value
