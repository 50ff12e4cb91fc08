# cython: annotation_typing=False
"""Reads through pending changes, as if they were already written."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from docstore.storage.engine import each_keys, each_values, keys_of_ranges, seeking, values_of_ranges

if TYPE_CHECKING:
    from docstore.kernel.scan.watched import Sought
    from docstore.storage import Batch, Engine, Family
    from docstore.storage.engine import Range

_key_of = itemgetter(0)


def overlaid(
    pending: Mapping[bytes, bytes | None],
    stored: Iterator[tuple[bytes, bytes]],
    start: bytes,
    end: bytes,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of `stored`, which cover `[start, end)`, with the changes of `pending`, in order.

    `pending` is read at the call; later additions are not seen.
    """
    changed = {key: value for key, value in pending.items() if start <= key < end}
    if not changed:
        return stored
    added = sorted(((key, value) for key, value in changed.items() if value is not None), reverse=reverse)
    kept = (item for item in stored if item[0] not in changed)
    return heapq.merge(kept, added, key=_key_of, reverse=reverse)


class PendingReader:
    """A `Reader` of the newest state with the changes of an unwritten batch."""

    batch: Batch
    engine: Engine

    def get(self, family: Family, key: bytes) -> bytes | None:
        pending = self.batch.changes[family]
        if key in pending:
            return pending[key]
        return self.engine.get(family, key)

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        stored = self.engine.items(family, start, end, reverse)
        return overlaid(self.batch.changes[family], stored, start, end, reverse)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self.batch.changes[family]:
            return self.engine.keys(family, start, end, reverse)
        return (key for key, _ in self.items(family, start, end, reverse))

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self.batch.changes[family]:
            return self.engine.values(family, start, end, reverse)
        return (value for _, value in self.items(family, start, end, reverse))

    def of_ranges(self, family: Family, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
        if self.batch.changes[family]:
            return (each_values if values else each_keys)(self, family, ranges)
        return (values_of_ranges if values else keys_of_ranges)(self.engine, family, ranges)

    def sought(self, family: Family, end: bytes, *, pairs: bool) -> Sought | None:
        return None if self.batch.changes[family] else seeking(self.engine, family, end, pairs=pairs)
