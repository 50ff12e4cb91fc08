"""A cache of parsed sorts."""

from __future__ import annotations

from functools import lru_cache

from docstore.errors import CommandError
from docstore.query.sort import Sort, parse_sort
from mongos.limits import MAX_CACHED_SORT_BYTES


def known_order(raw: bytes) -> Sort | None:
    """Return the sort if it is short and independent of the filter; else None."""
    return _known_order(raw) if len(raw) <= MAX_CACHED_SORT_BYTES else None


@lru_cache(maxsize=256)
def _known_order(raw: bytes) -> Sort | None:
    try:
        return parse_sort(raw)
    except CommandError:
        # The regular parser reports the error.
        return None
