"""Application of fetched entries: in order, in slices, each slice one unit of work (rule 14).

Entries are applied sequentially, so the state between two slices is one that the primary had; readers need no barrier
at the end of a batch. A delayed member holds entries back until they are old enough (rule 23b).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from docstore.bson import get_field
from docstore.collection.oplog.apply import EntryUnit, apply_entry, begin_build
from docstore.collection.oplog.inserts import groups_inserts
from docstore.collection.oplog.oplog import entry_optime
from docstore.replicaset.sync.sync_counts import SyncCounts

if TYPE_CHECKING:
    from docstore.collection.store import Store

SLICE_SECONDS = 0.002
ENTRIES_PER_LOOK = 8
"""Entries between two looks at the clock; a short one takes some 20 µs."""
_LONG_ENTRY = 4096


class Applier:
    """Applies entries to one store. `clock` is monotonic, `wall_clock` in seconds since 1970.

    `progressed()` is called after each slice.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        progressed: Callable[[], None],
        counts: SyncCounts | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall_clock = wall_clock
        self._progressed = progressed
        self._counts = counts or SyncCounts()

    async def apply(self, entries: list[bytes], *, tolerant: bool = False, delay_seconds: int = 0) -> None:
        """Apply entries, oldest first. `tolerant`: they may have been applied before (initial sync)."""
        done, began = 0, self._clock()
        while done < len(entries):
            await self._store.write_lock.wait()
            ready = len(entries)
            if delay_seconds:
                ready = await self._wait_until_old_enough(entries, done, delay_seconds)
            done = await self._build(entries[done], done, tolerant) or self._slice(entries, done, ready, tolerant)
            self._progressed()
            if done < len(entries):
                await asyncio.sleep(0)
        self._counts.applied_batch(self._clock() - began)

    async def _build(self, entry: bytes, position: int, tolerant: bool) -> int:
        """Apply an entry that builds an index over documents, in slices.

        Return the next position, 0 for other entries.
        """
        if not _is_command(entry):
            return 0
        build = begin_build(self._store, entry, tolerant=tolerant)
        if build is None:
            return 0
        try:
            while not build.step(self._clock() + SLICE_SECONDS):
                await asyncio.sleep(0)
                await self._store.write_lock.wait()
            apply_entry(self._store, entry, tolerant=tolerant, build=build)
        except asyncio.CancelledError:
            build.abort()
            raise
        self._counts.applied([entry])
        return position + 1

    def _slice(self, entries: list[bytes], start: int, end: int, tolerant: bool) -> int:
        """Apply the entries of one slice; a command, which may be an index build, has a slice of its own."""
        until = self._clock() + SLICE_SECONDS
        position = start
        if _is_command(entries[start]):
            apply_entry(self._store, entries[start], tolerant=tolerant)
            position += 1
        else:
            with EntryUnit(self._store, tolerant=tolerant) as unit:
                check_position = position
                while position < end and not _is_command(entries[position]):
                    position += unit.apply_next(entries, position, end)
                    if position >= check_position + ENTRIES_PER_LOOK or len(entries[position - 1]) > _LONG_ENTRY:
                        check_position = position
                        if self._clock() >= until:
                            break
                unit.commit()
        self._counts.applied(entries[start:position])
        return position

    async def _wait_until_old_enough(self, entries: Sequence[bytes], start: int, delay_seconds: int) -> int:
        """Wait until an entry may be applied; return the end of those that may."""
        while True:
            limit = int(self._wall_clock()) - delay_seconds
            end = start
            while end < len(entries) and entry_optime(entries[end]).seconds <= limit:
                end += 1
            if end > start:
                return end
            await asyncio.sleep(
                min(1.0, entry_optime(entries[start]).seconds + delay_seconds - self._wall_clock() + 0.01)
            )


def _is_command(entry: bytes) -> bool:
    """Return True if the entry changes the catalog."""
    op = get_field(entry, "op")
    return op is not None and op[1] == b"\x02\0\0\0c\0" and not groups_inserts(entry)
