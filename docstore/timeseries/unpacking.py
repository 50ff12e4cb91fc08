"""The measurements of a bucket, in the order in which they were stored."""

from __future__ import annotations

from docstore.bson.build import enclosed
from docstore.bson.walk import OBJECT, elements, encoded_name, get_field
from docstore.errors import CommandError
from docstore.timeseries.definition import DATA, META, TYPE_BYTES


def measurements(raw: bytes, time_field: str, meta_field: str | None) -> list[bytes]:
    """The documents that were put into the bucket: the time first, then the metadata, then the other fields in the
    order of the bucket. Errors: 10065 for what is no bucket of that time field.
    """
    found = get_field(raw, DATA)
    columns = {} if found is None or found[0] != OBJECT else {name: data for name, _, data in elements(found[1])}
    times = columns.pop(time_field, None)
    if times is None:
        raise CommandError(10065, f"a bucket has no values of the time field {time_field}")
    # What stands in every measurement behind the time.
    shared = b""
    if meta_field is not None:
        meta = get_field(raw, META)
        if meta is not None:
            shared = _head(meta[0], meta_field) + meta[1]
    rows: dict[str, list[bytes]] = {}
    for place, code, data in elements(times):
        rows[place] = [_head(code, time_field), data, shared]
    for name, column in columns.items():
        key = encoded_name(name) + b"\0"
        for place, code, data in elements(column):
            row = rows.get(place)
            if row is not None:
                row += (TYPE_BYTES[code], key, data)
    return [enclosed(b"".join(row)) for row in rows.values()]


def _head(code: int, name: str) -> bytes:
    return TYPE_BYTES[code] + encoded_name(name) + b"\0"
