# cython: annotation_typing=False
"""Free disk space, checked often enough that a write which does not fit is rejected before it begins.

RocksDB accepts no more writes after it has met a full disk, until it is opened again. The remaining space must also
suffice for the sorted files that it creates in the background.

* Documents are rejected while less than the reserve is free, and accepted again as soon as more is.
* The reserve serves writes that must succeed: rollbacks may use a part of it, election state all of it.
* Drops and deletions free space only after a while: they are logged first, on a replica set with the deleted documents
  for undo. So the smaller a removal, the further it may go into the reserve. A delete of many documents stops at half
  of it, with DiskFull, until the removed data have left the disk; a drop may use it up.
* `wants_room` tells when removals in the reserve have to be written out to free space.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import cython

from docstore.log import component
from docstore.storage.engine import Batch, DiskFull, Family, Urgency

LOG = component("STORAGE")

RESERVE_BYTES = 256 << 20
"""Maximum reserve in bytes: the possible size of the memtables and the log."""

_RESERVE_SHARE = 20
"""The reserve of a small disk is its 20th part."""

_LOOK_EVERY = 32
_LOOK_SHARE = 16
"""The disk is checked after so many writes, or after the 16th part of the reserve."""

_MIN_REMOVALS = 1024
"""A removal is accepted while there is room for so many of its size, or half of the reserve."""

_FAMILIES = (Family.RECORDS, Family.WIDE, Family.INDEXES)
"""Families with permanent data. An oplog entry without a document is small, and truncation makes room for it."""

_SHIFTS = {Urgency.ORDINARY: 0, Urgency.RECOVERY: 2}
"""The part of the reserve that must stay free: 1, 1/4."""


class DiskSpace:
    """Free space on the disk of one directory. `measure(path)` returns (free bytes, total bytes)."""

    def __init__(self, path: str, measure: Callable[[str], tuple[int, int]] | None = None) -> None:
        self._path = path
        self._measure = measure or disk_space
        self._until_look: cython.Py_ssize_t = 0
        self._bytes_until_look: cython.Py_ssize_t = 0
        self._removed_bytes: cython.Py_ssize_t = 0
        self._reserve: cython.Py_ssize_t = 0
        self._is_full = False

    @cython.ccall
    def check(self, batch: Batch) -> None:
        """Check that there is room for the batch's documents, index entries, or large removal. Errors: DiskFull."""
        weight = _weight(batch)
        self._until_look -= 1
        self._bytes_until_look -= weight
        if self._until_look < 0 or self._bytes_until_look < 0 or self._is_full:
            self._look_for(batch, weight)

    def _look_for(self, batch: Batch, weight: int) -> None:
        """Apply `check` with a fresh measurement."""
        free, reserve = self._look()
        if batch.urgency is Urgency.CONSENSUS or free - weight >= reserve:
            return
        values = [value for family in _FAMILIES for value in batch.changes[family].values()]
        if any(value is not None for value in values):
            limit = reserve >> _SHIFTS[batch.urgency]
            refused = self._is_full and free < limit
        elif values or batch.ranges:
            # The size of a range is unknown: it may be large.
            self._removed_bytes += reserve if batch.ranges else weight
            refused = batch.urgency is Urgency.ORDINARY and free < min(reserve // 2, weight * _MIN_REMOVALS)
        else:
            # Entries of the oplog that change no document, and the catalog's: a new primary cannot begin without.
            return
        if refused:
            raise self._refusal(free)

    @cython.ccall
    def wants_room(self) -> bool:
        """Return True once after removals within the reserve have filled much of the log and memtables."""
        if self._removed_bytes <= self._reserve // _LOOK_SHARE:
            return False
        self._removed_bytes = 0
        return True

    def check_room(self) -> None:
        """Check that there is room for many entries. Errors: DiskFull."""
        free, _ = self._look()
        if self._is_full:
            raise self._refusal(free)

    def _look(self) -> tuple[int, int]:
        """Return (free bytes, reserve in bytes)."""
        free, total = self._measure(self._path)
        self._reserve = reserve = min(RESERVE_BYTES, total // _RESERVE_SHARE)
        self._until_look = _LOOK_EVERY
        self._bytes_until_look = reserve // _LOOK_SHARE
        if self._is_full != (free < reserve):
            self._is_full = not self._is_full
            if self._is_full:
                LOG.warning("The disk is full: writes are refused", path=self._path, free=free, reserve=reserve)
            else:
                LOG.info("The disk has room again: writes are taken", path=self._path, free=free, reserve=reserve)
        return free, reserve

    def _refusal(self, free: int) -> DiskFull:
        return DiskFull(f"{free >> 20} MiB are left on the disk of {self._path}, too few to take more documents")


@cython.cfunc
def _weight(batch: Batch) -> cython.Py_ssize_t:
    """Return the bytes of the batch's values, a lower bound of its size in the log."""
    weight = 0
    for changes in batch.changes:
        for value in changes.values():
            if value is not None:
                weight += len(value)
    return weight


def disk_space(path: str) -> tuple[int, int]:
    """Return (bytes free for this user, total bytes) of a directory's file system."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
