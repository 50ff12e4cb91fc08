"""Writes out memtables that hold many removed keys, so that readers do not walk over these.

A read passes over each removed key in a memtable, backwards in half a microsecond and more. In sorted files RocksDB
merges at once what consists of removed keys (`merge_removed_keys`), and then they are gone.
"""

from __future__ import annotations

from typing import Any

from rocksdict import Options

from docstore.log import component
from docstore.storage.engine import Family

LOG = component("STORAGE")
MAX_REMOVED = 8_192
"""Removed keys of a family after which its memtable is written out."""
MIN_REMOVED = 512
"""Fewer removed keys are left where they are."""
_MAX_FILES = 12
"""Files that wait to be merged, from which on no more are made for removed keys."""
_WINDOW, _REMOVED_IN_WINDOW, _REMOVED_PART = 1_000, 500, 0.3
"""A file is merged soon if so many keys in a row have so many removed ones, or such a part of all is removed."""
_FAMILIES = (Family.RECORDS, Family.INDEXES, Family.WIDE)
"""Families in which keys are removed at the head of ranges that are read again and again: a queue, what has expired."""


def merge_removed_keys(options: Options) -> None:
    """Have files of many removed keys be merged as soon as they are there."""
    options.add_compact_on_deletion_collector_factory(_WINDOW, _REMOVED_IN_WINDOW, _REMOVED_PART)


class RemovedKeys:
    """Those of one engine. `counts`: keys removed since the memtable was last written out for it, by family."""

    def __init__(self, families: tuple[Any, ...], path: str) -> None:
        """`families`: rocksdict's column families, in the order of `Family`."""
        self.counts = [0] * len(families)
        self._families = families
        self._path = path
        self._next = [MAX_REMOVED] * len(families)
        """The count from which on it is worth while to look at a family, by family."""

    def write_out_many(self) -> None:
        """Write out the memtables that hold too many; to be called after a write that has removed keys."""
        for family in _FAMILIES:
            if self.counts[family] >= self._next[family]:
                self._write_out(family)

    def write_out(self) -> None:
        """Write out all memtables that hold enough to be worth a file; to be called now and then."""
        for family in _FAMILIES:
            if self.counts[family] >= MIN_REMOVED:
                self._write_out(family)

    def write_out_all(self) -> None:
        """Write out every memtable, so that the log which holds the removals may go, and files without removed keys
        take the place of those that are there.
        """
        for family in range(len(self._families)):
            self._write_out(Family(family))

    def close(self) -> None:
        """Let the families go: RocksDB keeps its directory while anybody has one."""
        self.counts = [0] * len(self._families)
        self._families = ()

    def _write_out(self, family: Family) -> None:
        """Write a memtable out, unless earlier ones still wait for the disk: then later."""
        source = self._families[family]
        waiting = source.property_int_value("rocksdb.num-immutable-mem-table")
        files = int(source.property_value("rocksdb.num-files-at-level0") or 0)
        if waiting or files >= _MAX_FILES:
            self._next[family] = self.counts[family] + MIN_REMOVED
            return
        try:
            source.flush(wait=False)
        except Exception as error:  # rocksdict raises nothing narrower
            LOG.warning("A memtable could not be written out", path=self._path, error=str(error))
        self.counts[family] = 0
        self._next[family] = MAX_REMOVED
