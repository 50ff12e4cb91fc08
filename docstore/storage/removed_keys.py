"""Flushes memtables with many tombstones, so that readers do not have to skip them.

A read skips each tombstone in a memtable, backwards in half a microsecond or more. RocksDB compacts sorted files that
consist of tombstones at once (`merge_removed_keys`), which removes them.
"""

from __future__ import annotations

from typing import Any

from rocksdict import Options

from docstore.log import component
from docstore.storage.engine import Family

MAX_WAITING_FILES = 12
"""Files waiting for compaction from which no memtable is flushed for its tombstones."""
LOG = component("STORAGE")
MAX_REMOVED = 8_192
"""Deleted keys of a family after which its memtable is flushed."""
MIN_REMOVED = 512
"""Fewer deleted keys are not worth a flush."""
_WINDOW, _REMOVED_IN_WINDOW, _REMOVED_PART = 1_000, 500, 0.3
"""A file is compacted soon if so many keys in a row have so many tombstones, or this share of all are tombstones."""
_FAMILIES = (Family.RECORDS, Family.INDEXES, Family.WIDE)
"""Families with deletions at the start of ranges that are read repeatedly, as in queues and by TTL."""


def merge_removed_keys(options: Options) -> None:
    """Have files with many tombstones compacted as soon as they exist."""
    options.add_compact_on_deletion_collector_factory(_WINDOW, _REMOVED_IN_WINDOW, _REMOVED_PART)


class RemovedKeys:
    """Tombstones of one engine. `counts`: keys deleted since the last flush for tombstones, by family."""

    def __init__(self, families: tuple[Any, ...], path: str) -> None:
        """`families`: rocksdict's column families, in the order of `Family`."""
        self.counts = [0] * len(families)
        self._families = families
        self._path = path
        self._next = [MAX_REMOVED] * len(families)
        """By family: the count from which a flush is considered."""

    def write_out_many(self) -> None:
        """Flush memtables with too many tombstones; call it after a write that deleted keys."""
        for family in _FAMILIES:
            if self.counts[family] >= self._next[family]:
                self._write_out(family)

    def write_out(self) -> None:
        """Flush all memtables with enough tombstones for a file; call it periodically."""
        for family in _FAMILIES:
            if self.counts[family] >= MIN_REMOVED:
                self._write_out(family)

    def write_out_all(self) -> None:
        """Flush every memtable, so that the log with the deletions can go, and compaction can drop deleted keys."""
        for family in range(len(self._families)):
            self._write_out(Family(family))

    def close(self) -> None:
        """Release the families: RocksDB keeps its directory locked while a reference to one exists."""
        self.counts = [0] * len(self._families)
        self._families = ()

    def _write_out(self, family: Family) -> None:
        """Flush a memtable, unless earlier ones still wait for the disk: then try later."""
        source = self._families[family]
        waiting = source.property_int_value("rocksdb.num-immutable-mem-table")
        files = int(source.property_value("rocksdb.num-files-at-level0") or 0)
        if waiting or files >= MAX_WAITING_FILES:
            self._next[family] = self.counts[family] + MIN_REMOVED
            return
        try:
            source.flush(wait=False)
        except Exception as error:  # rocksdict raises nothing narrower
            LOG.warning("A memtable could not be written out", path=self._path, error=str(error))
        self.counts[family] = 0
        self._next[family] = MAX_REMOVED
