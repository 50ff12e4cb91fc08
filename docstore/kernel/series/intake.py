"""What has to be known of documents on their way into buckets: their times and their metadata."""

from __future__ import annotations

import cython

from docstore.bson.validation import validate
from docstore.bson.walk import Value
from docstore.errors import CommandError

if not cython.compiled:
    from docstore.bson.walk import DATE, find, int64_at, part, value_end


def measured(
    documents: list[bytes], begin: int, end: int, time_field: bytes, meta_field: bytes | None, most_bytes: int
) -> list[tuple[int, Value | None] | None]:
    """(milliseconds since 1970, metadata) of each of the documents from `begin` up to `end`; None for one that is
    longer than `most_bytes`, is not well formed or has no time. Whoever looks at it by itself says what is wrong.
    """
    place: cython.Py_ssize_t
    raw: bytes
    found: list[tuple[int, Value | None] | None] = []
    for place in range(begin, end):
        raw = documents[place]
        try:
            validate(raw)
        except CommandError:
            found.append(None)
        else:
            found.append(None if len(raw) > most_bytes else _measured(raw, time_field, meta_field))
    return found


def _measured(raw: bytes, time_field: bytes, meta_field: bytes | None) -> tuple[int, Value | None] | None:
    at: cython.Py_ssize_t = find(raw, 0, len(raw), time_field)
    value: cython.Py_ssize_t
    if at < 0 or raw[at] != DATE:
        return None
    time: cython.longlong = int64_at(raw, at + len(time_field) + 2)
    if meta_field is None:
        return time, None
    at = find(raw, 0, len(raw), meta_field)
    if at < 0:
        return time, None
    value = at + len(meta_field) + 2
    return time, (raw[at], part(raw, value, value_end(raw, raw[at], value, len(raw))))
