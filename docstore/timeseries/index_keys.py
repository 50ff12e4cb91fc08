"""Translation of index keys on measurements to index keys on buckets, and back.

The time and every measured field become two fields of a bucket, its minimum and its maximum, in the order that sorts
buckets like the measurements; the metadata stays one field.
"""

from __future__ import annotations

from docstore.bson.build import document_from
from docstore.bson.walk import STRING, elements
from docstore.errors import Code, CommandError
from docstore.query.value.values import NUMBERS, number_of, text_of
from docstore.timeseries.conditions import renamed_metadata
from docstore.timeseries.definition import CONTROL, META, TimeseriesDefinition

_MIN, _MAX = f"{CONTROL}.min.", f"{CONTROL}.max."

Field = tuple[str, int, bytes]


def bucket_key(definition: TimeseriesDefinition, key: bytes) -> bytes:
    """Return the key pattern of buckets. Errors: CannotCreateIndex for a kind of index that measurements cannot have,
    NotImplemented for one of geometry.
    """
    fields: list[Field] = []
    for path, code, data in elements(key):
        meta = renamed_metadata(path, definition.meta_field)
        if meta is not None:
            fields.append((meta, code, data))
            continue
        if code not in NUMBERS:
            if code == STRING and text_of((code, data)) == "2dsphere" and path != definition.time_field:
                raise CommandError(Code.NotImplemented, "geometry indexes of measured fields are not supported")
            raise CommandError(
                Code.CannotCreateIndex,
                f"Invalid index spec for time-series collection: {path} is measured, and such an index is by its "
                "values in order",
            )
        first, second = (_MIN, _MAX) if number_of((code, data)) > 0 else (_MAX, _MIN)
        fields += [(first + path, code, data), (second + path, code, data)]
    return document_from(fields)


def measured_key(definition: TimeseriesDefinition, key: bytes) -> bytes | None:
    """Return the key pattern of measurements from which `bucket_key` made this one; None if there is none."""
    fields: list[Field] = []
    remaining = elements(key)
    while remaining:
        path, code, data = remaining.pop(0)
        name, dot, inner_path = path.partition(".")
        if name == META and definition.meta_field is not None:
            fields.append((definition.meta_field + dot + inner_path, code, data))
            continue
        measured = path.removeprefix(_MIN).removeprefix(_MAX)
        if code not in NUMBERS or measured == path or not remaining:
            return None
        first, second = (_MIN, _MAX) if number_of((code, data)) > 0 else (_MAX, _MIN)
        if path != first + measured or remaining.pop(0) != (second + measured, code, data):
            return None
        fields.append((measured, code, data))
    return document_from(fields)
