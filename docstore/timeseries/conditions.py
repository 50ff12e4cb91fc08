"""Translation of filters on measurements to filters on their buckets.

- A condition on the metadata alone applies to a bucket, under another path (`of_metadata`).
- A comparison with a measured value becomes one with a bucket's minimum or maximum (`of_measured`). It matches every
  bucket with such a measurement, and others, so the measurements must be filtered again. It relies on all values of a
  field in a bucket being of comparable types.
- An interval of times bounds the `_id` of buckets (`of_begun`).
- Other conditions are not translated.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from docstore.bson.build import array_value, document_from
from docstore.bson.walk import ARRAY, BOOL, DATE, OBJECT, OBJECT_ID, TIMESTAMP, Value, elements, values
from docstore.query.value.values import NUMBERS, number_of
from docstore.timeseries.definition import CONTROL, META

_CONNECTIVES = frozenset(("$and", "$or", "$nor"))
_LOWER = {"$gt": "$gt", "$gte": "$gte", "$eq": "$gte"}
_UPPER = {"$lt": "$lt", "$lte": "$lte", "$eq": "$lte"}
_COMPARED = NUMBERS | {BOOL, DATE, OBJECT_ID, TIMESTAMP}
"""The types whose values a collation has no say in."""
LEAST_TIME, GREATEST_TIME = -(1 << 63), (1 << 63) - 1
_WRAPPED_SECONDS = 1 << 32


def renamed_metadata(path: str, meta_field: str | None) -> str | None:
    """Return the bucket path of a path in the metadata; None for other paths."""
    name, dot, inner_path = path.partition(".")
    return None if name != meta_field or meta_field is None else META + dot + inner_path


def of_metadata(condition: bytes, meta_field: str | None) -> bytes | None:
    """Return a filter of the metadata alone as one of buckets; None for others."""
    fields: list[tuple[str, int, bytes]] = []
    for name, code, data in elements(condition):
        if name in _CONNECTIVES and code == ARRAY:
            members: list[Value] = []
            for kind, member in values(data):
                inner = of_metadata(member, meta_field) if kind == OBJECT else None
                if inner is None:
                    return None
                members.append((OBJECT, inner))
            fields.append((name, *array_value(members)))
            continue
        renamed = renamed_metadata(name, meta_field)
        if renamed is None:
            return None
        fields.append((renamed, code, data))
    return document_from(fields) if fields else None


def of_measured(condition: bytes, time_field: str, span_seconds: int) -> bytes | None:
    """Return the filter on buckets of that span for comparisons with measured values; None if there is none."""
    bucket_filters: list[tuple[str, int, bytes]] = []
    for path, code, data in elements(condition):
        if path.startswith("$"):
            continue
        comparisons = elements(data) if code == OBJECT else [("$eq", code, data)]
        least: list[tuple[str, int, bytes]] = []
        greatest: list[tuple[str, int, bytes]] = []
        for operator, kind, value in comparisons:
            if (operator not in _LOWER and operator not in _UPPER) or not is_compared((kind, value)):
                continue
            if operator in _LOWER:
                greatest.append((_LOWER[operator], kind, value))
            if operator in _UPPER:
                least.append((_UPPER[operator], kind, value))
            if path == time_field and kind == DATE:
                # No bucket reaches further than its span.
                if operator in _LOWER:
                    least.append((_LOWER[operator], DATE, _moved(value, -span_seconds)))
                if operator in _UPPER:
                    greatest.append((_UPPER[operator], DATE, _moved(value, span_seconds)))
        for name, bounds in (("max", greatest), ("min", least)):
            # The same operator may stand there twice.
            bucket_filters += [(f"{CONTROL}.{name}.{path}", OBJECT, document_from([bound])) for bound in bounds]
    if not bucket_filters:
        return None
    members: list[Value] = [(OBJECT, document_from([bucket_filter])) for bucket_filter in bucket_filters]
    return document_from([("$and", *array_value(members))])


def of_begun(conditions: Iterable[bytes], time_field: str, span_seconds: int) -> bytes | None:
    """Return the filter on the `_id` of buckets for filters that bound the time on both sides; None if there is none.

    The `_id` begins with the seconds of the bucket's begin. These wrap around for times that need more than 32 bits.
    Such times, and one-sided bounds, which include them, give no filter.
    """
    least, greatest = LEAST_TIME, GREATEST_TIME
    for condition in conditions:
        for path, code, data in elements(condition):
            if path != time_field:
                continue
            for operator, kind, value in elements(data) if code == OBJECT else [("$eq", code, data)]:
                if kind != DATE:
                    continue
                time = int.from_bytes(value, "little", signed=True)
                if operator in _LOWER:
                    least = max(least, time)
                if operator in _UPPER:
                    greatest = min(greatest, time)
    id_range = begun_between(least, greatest, span_seconds)
    if id_range is None:
        return None
    bounds = [("$gte", OBJECT_ID, id_range[0]), ("$lte", OBJECT_ID, id_range[1])]
    return document_from([("_id", OBJECT, document_from(bounds))])


def begun_between(least: int, greatest: int, span_seconds: int) -> tuple[bytes, bytes] | None:
    """Return the least and the greatest `_id` of buckets of that span with measurements of these times, in
    milliseconds since 1970; None as in `of_begun`.
    """
    first, last = least // 1000 - span_seconds, greatest // 1000
    if first < 0 or last >= _WRAPPED_SECONDS or first > last:
        return None
    return first.to_bytes(4, "big") + bytes(8), last.to_bytes(4, "big") + b"\xff" * 8


def is_compared(value: Value) -> bool:
    """True if a comparison with the value restricts the minimum or maximum of a bucket."""
    return value[0] in _COMPARED and not (value[0] in NUMBERS and isnan(number_of(value)))


def _moved(date: bytes, seconds: int) -> bytes:
    time = int.from_bytes(date, "little", signed=True) + seconds * 1000
    return min(max(time, LEAST_TIME), GREATEST_TIME).to_bytes(8, "little", signed=True)
