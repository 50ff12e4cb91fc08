# cython: annotation_typing=False
"""How much room the disk has: looked at so often that a write which does not fit is refused before it begins.

RocksDB takes no more writes once one has met a full disk, until it is opened again; what is left must also do for the
sorted files that it makes in the background. So documents are refused while less than the reserve is free, and
taken again as soon as there is more. The reserve is there for what must go on all the same: rollbacks may take a part
of it, what a member remembers of elections all.

Drops and deletions make room, but only after a while: they are logged first, deletions on a replica set with the
documents that undoing them would put back. So a removal goes the further into the reserve the less it weighs: a delete
of many documents stops at half of it, with DiskFull, until what it has removed has gone from the disk; a drop goes on
to the end. `wants_room` tells when removals in the reserve have to be written out for that.
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
_LOOK_SHARE = 16
"""The disk is looked at after so many writes, or after the 16th part of the reserve."""

_MIN_REMOVALS = 1024
"""A removal is taken while there is room for so many like it, or half of the reserve."""

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
        self._bytes_until_look = 0
        self._removed_bytes = 0
        self._reserve = 0
        self._is_full = False

    def check(self, batch: Batch) -> None:
        """DiskFull when there is no room for the documents or index entries of the batch, or for a large removal."""
        weight = _weight(batch)
        self._until_look -= 1
        self._bytes_until_look -= weight
        if self._until_look < 0 or self._bytes_until_look < 0 or self._is_full:
            self._look_for(batch, weight)

    def _look_for(self, batch: Batch, weight: int) -> None:
        """`check`, by what the disk says now."""
        free, reserve = self._look()
        if batch.urgency is Urgency.CONSENSUS or free - weight >= reserve:
            return
        if any(value is not None for family in _FAMILIES for value in batch.changes[family].values()):
            limit = reserve >> _SHIFTS[batch.urgency]
            refused = self._is_full and free < limit
        else:
            # What a range holds is not known: it may be much.
            self._removed_bytes += reserve if batch.ranges else weight
            refused = batch.urgency is Urgency.ORDINARY and free < min(reserve // 2, weight * _MIN_REMOVALS)
        if refused:
            raise self._refusal(free)

    def wants_room(self) -> bool:
        """Return True once after enough was removed in the reserve that the log and memtables hold much of it."""
        if self._removed_bytes <= self._reserve // _LOOK_SHARE:
            return False
        self._removed_bytes = 0
        return True

    def check_room(self) -> None:
        """DiskFull when there is no room for many entries."""
        free, _ = self._look()
        if self._is_full:
            raise self._refusal(free)

    def _look(self) -> tuple[int, int]:
        """(bytes free, bytes that are to stay so)."""
        free, total = self._measure(self._path)
        self._reserve = reserve = min(RESERVE_BYTES, total // _RESERVE_SHARE)
        self._until_look = _LOOK_EVERY
        self._bytes_until_look = reserve // _LOOK_SHARE
        self._is_full = free < reserve
        return free, reserve

    def _refusal(self, free: int) -> DiskFull:
        return DiskFull(f"{free >> 20} MiB are left on the disk of {self._path}, too few to take more documents")


def _weight(batch: Batch) -> int:
    """Return the bytes of the values in the batch, which the log takes at least."""
    weight = 0
    for changes in batch.changes:
        for value in changes.values():
            if value is not None:
                weight += len(value)
    return weight


def disk_space(path: str) -> tuple[int, int]:
    """(bytes free for this user, bytes in all) of the file system of a directory."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
