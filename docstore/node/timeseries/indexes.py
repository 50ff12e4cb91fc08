"""Indexes of time-series collections: translation between specifications on measurements and on buckets."""

from __future__ import annotations

from docstore.bson import BOOL, OBJECT, STRING, Value, document_from, elements, get_field
from docstore.collection.collection import Index
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.node.timeseries.series import Series
from docstore.query.find import Hint
from docstore.query.value.values import NUMBERS, number_of, text_of
from docstore.timeseries.conditions import renamed_metadata
from docstore.timeseries.index_keys import bucket_key, measured_key


def bucket_spec(series: Series, raw: bytes) -> bytes:
    """Return the bucket index for an index specification on measurements.

    Errors: InvalidOptions, CannotCreateIndex, NotImplemented for a partial index.
    """
    key = get_field(raw, "key")
    if key is None or key[0] != OBJECT:
        # The general path rejects it.
        return raw
    paths = [path for path, _, _ in elements(key[1])]
    measured = any(renamed_metadata(path, series.definition.meta_field) is None for path in paths)
    for name, refused in (("unique", "Unique"), ("expireAfterSeconds", "TTL")):
        value = get_field(raw, name)
        if value is not None and _is_set(value):
            raise CommandError(Code.InvalidOptions, f"{refused} indexes are not supported on time-series collections")
    sparse = get_field(raw, "sparse")
    if measured and sparse is not None and _is_set(sparse):
        raise CommandError(Code.InvalidOptions, "Sparse indexes are not supported on time-series measurements")
    if any(code == STRING and text_of((code, data)) == "text" for _, code, data in elements(key[1])):
        raise CommandError(Code.InvalidOptions, "Text indexes are not supported on time-series collections")
    if get_field(raw, "partialFilterExpression") is not None:
        raise CommandError(Code.NotImplemented, "partial indexes of time-series collections are not supported")
    key_document = bucket_key(series.definition, key[1])
    return document_from(
        [(name, OBJECT, key_document) if name == "key" else (name, code, data) for name, code, data in elements(raw)]
    )


def _is_set(value: Value) -> bool:
    if value[0] == BOOL:
        return value[1] == b"\1"
    return value[0] not in NUMBERS or number_of(value) != 0


def measured_specs(series: Series) -> list[bytes]:
    """Return the index specifications on measurements; bucket indexes without one are left out."""
    specs: list[bytes] = []
    for index in series.buckets.counted_indexes:
        key = measured_key(series.definition, index.spec.key)
        if key is not None:
            fields = elements(index.spec.raw)
            specs.append(document_from([("key", OBJECT, key) if field[0] == "key" else field for field in fields]))
    return specs


def measured_paths(series: Series) -> list[str]:
    """Return the indexed paths of measured fields."""
    paths: list[str] = []
    for index in series.buckets.secondary:
        key = measured_key(series.definition, index.spec.key)
        if key is not None:
            paths += [path for path, _, _ in elements(key)]
    of_others = (series.definition.meta_field, series.definition.time_field)
    return [path for path in paths if path.partition(".")[0] not in of_others]


def bucket_choice(series: Series, name_or_key: Value) -> Value:
    """Return the bucket index's name or key, given an index's name or its key on measurements."""
    return (OBJECT, bucket_key(series.definition, name_or_key[1])) if name_or_key[0] == OBJECT else name_or_key


def bucket_index(series: Series, raw: bytes) -> bytes:
    """Return the `index` argument of `collMod` for the bucket index."""
    return document_from(
        [
            (name, *bucket_choice(series, (code, data))) if name == "keyPattern" else (name, code, data)
            for name, code, data in elements(raw)
        ]
    )


def bucket_hint(series: Series, hint: Hint | None) -> Hint | None:
    """Return the hint for the buckets, given one by name or by a key on measurements."""
    if hint is None or hint.key is None:
        return hint
    for index in series.buckets.counted_indexes:
        if _measured_id(series, index) == hint.key:
            return Hint(name=index.name)
    return hint


def _measured_id(series: Series, index: Index) -> bytes | None:
    key = measured_key(series.definition, index.spec.key)
    return None if key is None else encode_key((OBJECT, key))
