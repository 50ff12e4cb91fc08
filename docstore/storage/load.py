"""The engine-independent part of a bulk load (`Load` of the engine contract).

Writes to the range during the load are recorded and applied after its entries, so that they prevail.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.kernel.keys.gathered import GatheredEntries
from docstore.storage.engine import Batch, Family, Urgency

_BATCH_ENTRIES = 1_024


def entries_between(start: bytes, end: bytes) -> GatheredEntries:
    """Return an empty collection for entries whose keys lie in `[start, end)`."""
    same = next(
        (at for at, (start_byte, end_byte) in enumerate(zip(start, end, strict=False)) if start_byte != end_byte), 0
    )
    return GatheredEntries(same)


class Later:
    """A batch of all writes to [`start`, `end`) of a family since a load began."""

    def __init__(self, family: Family, start: bytes, end: bytes) -> None:
        self._family = family
        self._start = start
        self._end = end
        self.batch = Batch()
        # It was accepted before, so the current free space does not matter.
        self.batch.urgency = Urgency.CONSENSUS

    def note(self, batch: Batch) -> None:
        """Record a batch that was written."""
        family, low, high = self._family, self._start, self._end
        for of, start, end in batch.ranges:
            if of is family and start < high and low < end:
                self.batch.delete_range(of, max(start, low), min(end, high))
        noted = self.batch.changes[family]
        for key, value in batch.changes[family].items():
            if low <= key < high:
                noted[key] = value


class BatchLoad:
    """Implements `Load` by write batches, for engines that gain nothing from sorted files."""

    def __init__(
        self, loads: list[BatchLoad], write: Callable[[Batch], None], family: Family, start: bytes, end: bytes
    ) -> None:
        """`loads`: the loads to which the engine reports each write; `write`: its write function."""
        self.later = Later(family, start, end)
        self._loads = loads
        self._write = write
        self._family = family
        self.entries = entries_between(start, end)
        loads.append(self)

    @property
    def full(self) -> bool:
        return self.entries.count >= _BATCH_ENTRIES

    def step(self, deadline: float) -> bool:
        self.abandon()
        batch = Batch()
        while self.entries.sort_run(1):
            pass
        self.entries.put_next(batch.changes[self._family], self.entries.count)
        for family, start, end in self.later.batch.ranges:
            batch.delete_range(family, start, end)
        batch.changes[self._family].update(self.later.batch.changes[self._family])
        self._write(batch)
        return True

    def abandon(self) -> None:
        if self in self._loads:
            self._loads.remove(self)
