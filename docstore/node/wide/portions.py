"""Stretches of records as they are stored: read in slices, sent between members, merged."""

from __future__ import annotations

from collections.abc import Sequence

from docstore.storage import Family
from docstore.storage.engine import Reader
from docstore.wide.execution import Portion, Stored
from docstore.wide.keys import STATISTICS
from docstore.wide.mutations import merged_record
from docstore.wide.slices import Steps

MAX_BYTES = 4 * 1024 * 1024
"""A portion ends when its records have so many bytes, whatever number was asked for."""
_STEP = 256


def read_portion(
    reader: Reader, prefix: bytes, start: bytes, end: bytes, *, reverse: bool, limit: int
) -> Steps[Portion]:
    """At most `limit` records of a row (its whole `prefix`) with paths in `[start, end)`."""
    at = len(prefix)
    taken: list[Stored] = []
    size = 0
    for position, (key, record) in enumerate(reader.items(Family.WIDE, prefix + start, prefix + end, reverse), 1):
        path = key[at:]
        if path == STATISTICS:
            continue
        if len(taken) == limit or size > MAX_BYTES:
            return Portion(taken, True)
        taken.append((path, record))
        size += len(path) + len(record)
        if not position % _STEP:
            yield
    return Portion(taken, False)


def merged_portion(portions: Sequence[Portion], *, reverse: bool) -> Portion:
    """What several members hold together, as far as all of them have told."""
    found: dict[bytes, bytes] = {}
    for portion in portions:
        for path, record in portion.entries:
            found[path] = merged_record(found.get(path), record)
    ends = [portion.entries[-1][0] for portion in portions if portion.more]
    if ends:
        last = max(ends) if reverse else min(ends)
        found = {path: record for path, record in found.items() if (path >= last if reverse else path <= last)}
    return Portion(sorted(found.items(), reverse=reverse), bool(ends))
