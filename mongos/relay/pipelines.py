"""Pipelines read from their bytes: which ones write nothing and run no scripts, and the collections they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from docstore.bson import OBJECT, elements
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, INT32, INT64, STRING, Value, values
from docstore.query.value.values import text_of
from mongos.limits import MAX_TEMPLATE_BYTES

_STAGES = frozenset(
    (
        "$addFields", "$bucket", "$bucketAuto", "$count", "$densify", "$facet", "$group", "$limit", "$match",
        "$project", "$redact", "$replaceRoot", "$replaceWith", "$sample", "$set", "$setWindowFields", "$skip", "$sort",
        "$sortByCount", "$unset", "$unwind",
    )
)  # fmt: skip
_READING = {"$graphLookup": "from", "$lookup": "from", "$unionWith": "coll"}
"""The field with the name of the collection, for stages that read another one."""
_SCRIPTS = (b"$function\0", b"$accumulator\0", b"$where\0")


def are_few(stages: Sequence[bytes]) -> bool:
    """True if the stages are short enough to be inspected and cached."""
    return sum(map(len, stages)) <= MAX_TEMPLATE_BYTES


def leading_filter(stages: Sequence[bytes]) -> bytes | None:
    """Return the filter of the first stage; None if it is no `$match`."""
    fields = elements(stages[0]) if stages else []
    return fields[0][2] if len(fields) == 1 and fields[0][:2] == ("$match", OBJECT) else None


@lru_cache(maxsize=512)
def read_beside(stages: tuple[bytes, ...]) -> frozenset[str] | None:
    """Return the other collections that stages read; None if they must be parsed."""
    collections: set[str] = set()
    for stage in stages:
        fields = elements(stage)
        if len(fields) != 1 or any(raw in stage for raw in _SCRIPTS):
            return None
        name, code, data = fields[0]
        read: Iterable[str] | None
        if name == "$facet":
            read = _of_each([(kind, raw) for _, kind, raw in elements(data)]) if code == OBJECT else None
        elif name in _READING:
            read = _of_reading(code, data, _READING[name])
        else:
            read = () if name in _STAGES else None
        if read is None:
            return None
        collections.update(read)
    return frozenset(collections)


def _of_reading(code: int, data: bytes, field: str) -> set[str] | None:
    """Return the collections that a stage reads by that field and by its pipeline; None if they are unknown."""
    if code == STRING:
        return {text_of((code, data))} if field == "coll" else None
    fields = {name: (kind, value) for name, kind, value in elements(data)} if code == OBJECT else {}
    name, pipeline = fields.get(field), fields.get("pipeline")
    if name is None or name[0] != STRING:
        return None
    inner = frozenset[str]() if pipeline is None else _of_each([pipeline])
    return None if inner is None else {text_of(name), *inner}


def _of_each(pipelines: Iterable[Value]) -> frozenset[str] | None:
    """Return the collections that the stages of several pipelines read; None if they are unknown."""
    collections: set[str] = set()
    for code, data in pipelines:
        stages = values(data) if code == ARRAY else [(code, data)]
        inner = read_beside(tuple([raw for _, raw in stages])) if all(kind == OBJECT for kind, _ in stages) else None
        if inner is None:
            return None
        collections |= inner
    return frozenset(collections)


def is_plain_cursor(cursor: bytes | None) -> bool:
    """True if the cursor option is empty, or only gives the size of the first batch."""
    if cursor is None:
        return False
    if cursor == EMPTY_DOCUMENT:
        return True
    fields = elements(cursor)
    if len(fields) != 1:
        return False
    [(name, code, data)] = fields
    return name == "batchSize" and code in (INT32, INT64) and data[-1] < 0x80
