"""Reading through pending changes: what is stored, as if they had been written already."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from operator import itemgetter

_key_of = itemgetter(0)


def overlaid(
    pending: Mapping[bytes, bytes | None],
    stored: Iterator[tuple[bytes, bytes]],
    start: bytes,
    end: bytes,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of `stored`, which cover `[start, end)`, changed by `pending`, in order.

    `pending` is read when called; what it gains later does not show.
    """
    changed = {key: value for key, value in pending.items() if start <= key < end}
    if not changed:
        return stored
    added = sorted(((key, value) for key, value in changed.items() if value is not None), reverse=reverse)
    kept = (item for item in stored if item[0] not in changed)
    return heapq.merge(kept, added, key=_key_of, reverse=reverse)
