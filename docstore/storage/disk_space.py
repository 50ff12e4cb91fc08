# cython: annotation_typing=False
"""How much room the disk has: looked at so often that a write which does not fit is refused before it begins.

RocksDB takes no more writes once one has met a full disk, until it is opened again; what is left must also do for the
sorted files that it makes in the background. So documents are refused while less than the reserve is free, and
taken again as soon as there is more. What adds no document passes: drops and deletions make room. The reserve is there
for what must go on all the same: rollbacks may take a part of it, what a member remembers of elections all.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from docstore.storage.engine import Batch, DiskFull, Family, Urgency

RESERVE_BYTES = 256 << 20
"""Kept free: as much as the memtables and the log may come to take."""

_RESERVE_SHARE = 20
"""The reserve of a small disk: its 20th part."""

_LOOK_EVERY = 32

_FAMILIES = (Family.RECORDS, Family.WIDE, Family.INDEXES)
"""What takes room for good. An oplog entry without a document is small, and old entries make room for it."""

_SHIFTS = {Urgency.ORDINARY: 0, Urgency.RECOVERY: 2}
"""The part of the reserve that must be left: 1, 1/4."""


class DiskSpace:
    """The room on the disk of one directory. `measure(path)` gives (free bytes, bytes in all)."""

    def __init__(self, path: str, measure: Callable[[str], tuple[int, int]] | None = None) -> None:
        self._path = path
        self._measure = measure or disk_space
        self._until_look = 0
        self._is_full = False

    def check(self, batch: Batch) -> None:
        """DiskFull when the batch brings documents or index entries and there is no room for them."""
        self._until_look -= 1
        if self._until_look < 0 or self._is_full:
            self._look_for(batch)

    def _look_for(self, batch: Batch) -> None:
        """`check`, by what the disk says now."""
        free, reserve = self._look()
        if not self._is_full or batch.urgency is Urgency.CONSENSUS or free >= reserve >> _SHIFTS[batch.urgency]:
            return
        if any(value is not None for family in _FAMILIES for value in batch.changes[family].values()):
            raise self._refusal(free)

    def check_room(self) -> None:
        """DiskFull when there is no room for many entries."""
        free, _ = self._look()
        if self._is_full:
            raise self._refusal(free)

    def _look(self) -> tuple[int, int]:
        """(bytes free, bytes that are to stay so)."""
        self._until_look = _LOOK_EVERY
        free, total = self._measure(self._path)
        reserve = min(RESERVE_BYTES, total // _RESERVE_SHARE)
        self._is_full = free < reserve
        return free, reserve

    def _refusal(self, free: int) -> DiskFull:
        return DiskFull(f"{free >> 20} MiB are left on the disk of {self._path}, too few to take more documents")


def disk_space(path: str) -> tuple[int, int]:
    """(bytes free for this user, bytes in all) of the file system of a directory."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
