# cython: annotation_typing=False
"""The oplog: one entry per replicated change, in timestamp order.

- Timestamps strictly increase, also across restarts, backward clock steps and gossiped cluster times. The clock is
  hybrid: the later of the wall clock and the highest time observed, in seconds, and a counter.
- An entry is written in the batch of its change, so an entry in the log has been applied.
- Entries are MongoDB 6.0's: `{op, ns, ui, o, o2, ts, t, v: 2, wall}` with `lsid, txnNumber` before and `stmtId,
  fromMigrate, prevOpTime` among them (protocol facts, rule 11), each re-appliable. A migration's clones are logged as
  grouped inserts (`docstore.collection.oplog.inserts`).
- Only majority-committed entries are truncated: `discard_undo` sets the limit; the maximum size is best effort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

import cython

from docstore.bson import Value, get_field
from docstore.collection.collection import pack_counters, unpack_counters
from docstore.key_layout import COUNTERS_PREFIX, OPLOG_IDENT, ident_bytes, long_of, timestamp_key
from docstore.optime import NULL_OPTIME, OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.storage import Engine, Reader

OPLOG_NS = "local.oplog.rs"
MIN_KEY = timestamp_key(0)
END_KEY = b"\xff" * 9
COUNTERS_KEY = COUNTERS_PREFIX + ident_bytes(OPLOG_IDENT)

_TRUNCATED_AT_ONCE = 20_000


def _key_below(before: int | None) -> bytes:
    """Return the exclusive end key of entries below that timestamp."""
    return END_KEY if before is None else timestamp_key(before)


def entry_optime(entry: bytes) -> OpTime:
    """Return `(t, ts)` of an entry. Entries from before the first election have no term, which counts as -1."""
    timestamp, term = get_field(entry, "ts"), get_field(entry, "t")
    assert timestamp is not None, "an oplog entry without ts"
    return optime_of(timestamp, term)


def optime_of(timestamp: Value, term: Value | None) -> OpTime:
    """Return the optime of the fields `ts` and `t` of an entry."""
    number = -1 if term is None else int.from_bytes(term[1], "little", signed=True)
    return OpTime(number, int.from_bytes(timestamp[1], "little"))


INITIATION = "initiating set"
"""The message of a set's first entry."""


def _is_initiation(entry: bytes) -> bool:
    o = get_field(entry, "o")
    message = None if o is None else get_field(o[1], "msg")
    return message is not None and message[1][4:-1] == INITIATION.encode()


class Oplog:
    """The oplog of one node. `clock` returns seconds since 1970; `max_bytes` is the size that `truncate_old` restores.

    `last` and `first`: the optimes of the newest and the oldest entry (NULL_OPTIME if there is none). `term`: the term
    of new entries; the replica set sets it after a won election. `writable`: True while this member is primary; no
    other member creates entries. `commit_limit`: the highest timestamp that may be truncated.
    `written_entries`: entries written since the process started; `written_undo`: the bytes of their undo records;
    `cuts`: the number of times entries were undone.
    """

    def __init__(self, engine: Engine, *, max_bytes: int, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock
        self.max_bytes = max_bytes
        self.term = 1
        self.writable = True
        self.commit_limit = 0
        self.written_entries = 0
        self.written_undo = 0
        self.cuts = 0
        self.count = 0
        self.size = 0
        self.first = self.last = NULL_OPTIME
        self._time: cython.ulonglong = 0
        self.load()

    def load(self) -> None:
        """Read both ends and the counters from disk. The clock does not go back: issued timestamps stay used."""
        counters = self._engine.get(Family.META, COUNTERS_KEY)
        self.count, self.size = unpack_counters(counters) if counters else (0, 0)
        self.first = self._end(reverse=False)
        self.last = self._end(reverse=True)
        self._time = max(self._time, self.last.timestamp)

    def _end(self, *, reverse: bool) -> OpTime:
        for entry in self._engine.values(Family.OPLOG, MIN_KEY, END_KEY, reverse):
            return entry_optime(entry)
        return NULL_OPTIME

    @property
    def is_whole(self) -> bool:
        """True if the log begins with the first entry of its set."""
        first = self.entry(self.first.timestamp)
        return first is not None and _is_initiation(first)

    def next_timestamp(self) -> int:
        """Return a timestamp above all that were issued, applied or observed."""
        now = int(self._clock())
        if now > self._time >> 32:
            self._time = now << 32 | 1
        else:
            self._time += 1
        return self._time

    def next_timestamps(self, count: int) -> int:
        """Return the first of `count` consecutive timestamps."""
        first = self.next_timestamp()
        self._time += count - 1
        return first

    def observe(self, timestamp: int) -> None:
        """Advance the clock to an observed cluster time: later timestamps are above it."""
        if timestamp > self._time:
            self._time = timestamp

    @property
    def cluster_time(self) -> int:
        """Return the highest timestamp issued, applied or observed."""
        return self._time

    def scan(self, reader: Reader, after: int, before: int | None = None) -> Iterator[bytes]:
        """Yield entries with timestamps above `after` and below `before` (None: no bound), oldest first."""
        return reader.values(Family.OPLOG, timestamp_key(after + 1), _key_below(before))

    def scan_back(self, reader: Reader, before: int | None = None, after: int | None = None) -> Iterator[bytes]:
        """Yield entries as `scan`, newest first; without bounds all of them."""
        start = MIN_KEY if after is None else timestamp_key(after + 1)
        return reader.values(Family.OPLOG, start, _key_below(before), True)

    def entry(self, timestamp: int) -> bytes | None:
        """Return the entry with exactly that timestamp."""
        return self._engine.get(Family.OPLOG, timestamp_key(timestamp))

    def holds(self, optime: OpTime) -> bool:
        """True if the log contains the entry at that optime, or contained it before truncation."""
        if optime.timestamp < self.first.timestamp:
            return optime < self.first
        entry = self.entry(optime.timestamp)
        return entry is not None and entry_optime(entry) == optime

    def written(self, last: OpTime, entries: int, added: int, undo: int) -> None:
        """Account for a written batch of `entries` entries and `added` bytes that ends in `last`.

        `undo`: the bytes of their undo records.
        """
        self.count += entries
        self.written_entries += entries
        self.written_undo += undo
        self.size += added
        if last > self.last:
            self.last = last
        if last.timestamp > self._time:
            self._time = last.timestamp
        if self.first is NULL_OPTIME:
            self.first = self._end(reverse=False)

    def cut(self, last: OpTime, entries: int, removed: int) -> None:
        """Account for the undo of the newest `entries` entries, of `removed` bytes; the log ends in `last` again."""
        self.count -= entries
        self.size -= removed
        self.last = last
        self.cuts += 1

    def counters(self, entries: int, added: int) -> bytes:
        """Return the counters row after `entries` more entries of `added` bytes."""
        return pack_counters(self.count + entries, self.size + added)

    def truncate_old(self, deadline: float | None = None, *, needed: int | None = None) -> int:
        """Remove the oldest entries while the size exceeds `max_bytes`; return their number.

        Stop before the timestamp `needed`, at `commit_limit`, at the newest entry, at 20,000 entries, and at the
        monotonic time `deadline` (checked every 128 entries). Call again while it returns more than zero.
        """
        excess = self.size - self.max_bytes
        removed = freed = 0
        cut = 0
        limit = self.commit_limit if needed is None else min(self.commit_limit, needed - 1)
        if excess <= 0:
            return 0
        for key, entry in self._engine.items(Family.OPLOG, timestamp_key(self.first.timestamp), END_KEY):
            cut = long_of(key)
            stop = freed >= excess or removed == _TRUNCATED_AT_ONCE or removed == self.count - 1
            if stop or cut > limit:
                break
            removed += 1
            freed += len(entry)
            if deadline is not None and removed % 128 == 0 and monotonic() > deadline:
                cut += 1
                break
        if removed:
            batch = Batch()
            batch.delete_range(Family.OPLOG, MIN_KEY, timestamp_key(cut))
            batch.put(Family.META, COUNTERS_KEY, self.counters(-removed, -freed))
            self._engine.write(batch)
            self.count -= removed
            self.size -= freed
            self.first = self._first_from(cut)
        return removed

    def _first_from(self, timestamp: int) -> OpTime:
        # Start at the cut, not at zero: iterating over the removed range is slow until it is compacted.
        for entry in self._engine.values(Family.OPLOG, timestamp_key(timestamp), END_KEY):
            return entry_optime(entry)
        return NULL_OPTIME
