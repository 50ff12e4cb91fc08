"""An earlier state of a snapshot: the undo records of the later oplog entries, overlaid on it.

It takes the memory of those undo records, so it is used only if no snapshot of the requested state exists: for reads at
a cluster time of the last minutes, and if the commit point lies between two snapshots. Collection counters are not
reverted: nobody reads them from a snapshot.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from docstore.collection.oplog.oplog import END_KEY, entry_optime
from docstore.collection.oplog.rollback import UnrecoverableRollback
from docstore.collection.oplog.undo import Part, counts_as_of, undo_keys
from docstore.collection.read.overlay import overlaid
from docstore.key_layout import timestamp_key
from docstore.optime import OpTime
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Snapshot

_ENTRIES_PER_LOOK = 16


class EarlierState:
    """Implements `docstore.storage.engine.Snapshot` once `step` has returned True. It owns the snapshot.

    `undo_bytes`: the size of the undo records overlaid.
    """

    def __init__(self, snapshot: Snapshot, optime: OpTime, at: int = 0) -> None:
        """Revert everything after the entry at `optime` in the snapshot's oplog, except changes that commit as of `at`
        or before.

        The keys of these have not been changed since. Errors: UnrecoverableRollback if the entry is missing.
        """
        self._snapshot = snapshot
        present = snapshot.get(Family.OPLOG, timestamp_key(optime.timestamp))
        if present is None or entry_optime(present) != optime:
            raise UnrecoverableRollback(f"the oplog has no entry at {optime}")
        self._at = at
        self._changes: tuple[dict[bytes, bytes | None], ...] = tuple({} for _ in Family)
        self._keys: tuple[list[bytes], ...] = ()
        self.undo_bytes = 0
        self._entries = snapshot.keys(Family.OPLOG, timestamp_key(optime.timestamp + 1), END_KEY, reverse=True)

    def step(self, clock: Callable[[], float], deadline: float) -> bool:
        """Revert entries, newest first, until `deadline`; True when all are reverted.

        Errors: UnrecoverableRollback if one has no undo record.
        """
        for count, key in enumerate(self._entries, 1):
            record = self._snapshot.get(Family.UNDO, key)
            if record is None:
                raise UnrecoverableRollback("an entry has no undo record")
            self.undo_bytes += len(record)
            as_of = counts_as_of(record) if self._at else None
            if as_of is not None and as_of <= self._at:
                self._changes[Family.OPLOG][key] = self._changes[Family.UNDO][key] = None
                continue
            for family, changed, previous in reversed(list(undo_keys(record))):
                # The first change of a key counts: it has the original value.
                if isinstance(previous, Part):
                    previous = previous.put_back(self.get(family, changed))
                self._changes[family][changed] = previous
            self._changes[Family.OPLOG][key] = self._changes[Family.UNDO][key] = None
            if count % _ENTRIES_PER_LOOK == 0 and clock() >= deadline:
                return False
        self._keys = tuple(sorted(changes) for changes in self._changes)
        return True

    def get(self, family: Family, key: bytes) -> bytes | None:
        changes = self._changes[family]
        return changes[key] if key in changes else self._snapshot.get(family, key)

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        keys, changes = self._keys[family], self._changes[family]
        pending = {key: changes[key] for key in keys[bisect_left(keys, start) : bisect_left(keys, end)]}
        return overlaid(pending, self._snapshot.items(family, start, end, reverse), start, end, reverse)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return (key for key, _ in self.items(family, start, end, reverse))

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return (value for _, value in self.items(family, start, end, reverse))

    def close(self) -> None:
        self._entries = iter(())
        self._snapshot.close()
