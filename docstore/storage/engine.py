# cython: annotation_typing=False
"""The contract of a key-value engine.

An engine holds six ordered maps from bytes to bytes, the families. Invariants, checked by one contract suite on all
engines and by a pair run in lockstep:

* `write` applies a batch completely or not at all, also if the process is killed during it.
* An accepted write survives the end of the process; after a later `flush` it survives power loss.
* An iterator shows the state at its creation, regardless of later writes.
* Ranges are half-open `[start, end)` and compare keys as unsigned bytes.

Writes, and reads of the newest state, come from one thread; `flush` and `checkpoint` may come from others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any, Protocol

from docstore.kernel.keys.gathered import GatheredEntries
from docstore.kernel.scan.watched import Sought


class Family(IntEnum):
    """The ordered maps of an engine. Undo records store the numbers: never change them."""

    RECORDS = 0
    INDEXES = 1
    OPLOG = 2
    UNDO = 3
    META = 4
    WIDE = 5


Range = tuple[bytes, bytes]
Get = Callable[[bytes], bytes | None]


class StorageError(Exception):
    """The disk or its content is faulty.

    Except for the subclasses below, the outcome of a failed write is unknown: stop the process.
    """


class DiskFull(StorageError):
    """The disk has no room for the write, which was not applied. Reads continue."""


class DataCorrupted(StorageError):
    """A read failed its checksum. Other reads, and writes, continue."""


class DatabaseLocked(StorageError):
    """Another process (or another engine of this one) has the directory open."""


class Urgency(IntEnum):
    """Share of the disk space reserve that a batch may use."""

    ORDINARY = 0
    """None of it: documents of clients."""
    RECOVERY = 1
    """All but a quarter: a rollback, which restores earlier data."""
    CONSENSUS = 2
    """All of it: election state of a member."""


class Batch:
    """Changes that become visible and durable together.

    * `changes[family]` maps a key to its new value, or to None for a deletion; a later change of a key replaces an
      earlier one.
    * `ranges` are deleted before `changes` apply, so `delete_range` drops pending changes inside it.
    * Both are public for callers that fill thousands of keys: they are the batch itself, not a copy.
    """

    __slots__ = ("changes", "ranges", "urgency")

    def __init__(self) -> None:
        self.changes: tuple[dict[bytes, bytes | None], ...] = ({}, {}, {}, {}, {}, {})
        self.ranges: list[tuple[Family, bytes, bytes]] = []
        self.urgency = Urgency.ORDINARY

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        self.changes[family][key] = value

    def delete(self, family: Family, key: bytes) -> None:
        self.changes[family][key] = None

    def delete_range(self, family: Family, start: bytes, end: bytes) -> None:
        """Delete every key in `[start, end)`, including pending changes of this batch."""
        pending = self.changes[family]
        for key in [key for key in pending if start <= key < end]:
            del pending[key]
        self.ranges.append((family, start, end))

    def __bool__(self) -> bool:
        return bool(self.ranges) or any(self.changes)


class Reader(Protocol):
    """Reads of one state: an engine (its newest), a snapshot, or a write unit (its changes over the newest)."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...

    def items(
        self, family: Family, start: bytes, end: bytes, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]: ...

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]: ...


class Snapshot(Reader, Protocol):
    """One state, kept until `close`. It is cheap to take; while open it keeps overwritten data on disk."""

    def close(self) -> None:
        """Release the state; idempotent. Later reads are errors."""


class Load(Protocol):
    """A bulk load of one family, within the range named at its beginning.

    `step` makes the entries visible and durable together. Keys written by others since the load began keep those
    values. A crash in the last step may leave deleted entries: do not rely on the range before the load is done.
    """

    entries: GatheredEntries
    """The entries to load; complete before the first step."""

    @property
    def full(self) -> bool:
        """True if the load is large enough; further entries should go into another one."""

    def step(self, deadline: float) -> bool:
        """Work until the monotonic time `deadline`; return True when done.

        Errors: DiskFull, StorageError; both abandon the load.
        """

    def abandon(self) -> None:
        """Drop the entries; idempotent, also after the last step."""


class Engine(Reader, Protocol):
    """An ordered key-value store of six families."""

    def write(self, batch: Batch) -> None:
        """Apply the batch. When this returns it survives the end of the process, but not yet power loss.

        Errors: DiskFull if there is no room; after any other StorageError the outcome is unknown.
        """

    def begin_load(self, family: Family, start: bytes, end: bytes) -> Load:
        """Begin a bulk load into `[start, end)`; finish it or abandon it."""

    def snapshot(self) -> Snapshot: ...

    def flush(self) -> None:
        """Block until all earlier writes survive power loss. Do not call it on an event loop's thread."""

    def checkpoint(self, path: str) -> None:
        """Create a database directory with the current state at `path`, which must not exist. Errors: StorageError."""

    def compact_removed(self) -> None:
        """Reclaim deleted keys that slow readers down; call it periodically."""

    def hold_files(self) -> bool:
        """Stop rewriting and removing files until `release_files`, so that files can be copied.

        Return False while such work is still running: ask again. Nothing may be written meanwhile.
        """

    def release_files(self) -> None: ...

    def ratio(self, family: Family) -> float:
        """Return the average bytes on disk per byte of keys and values of the family."""

    def stats(self) -> dict[str, Any]:
        """Return statistics for serverStatus: flat, numbers and strings; the names depend on the engine."""

    def close(self) -> None:
        """Release the directory; idempotent. Snapshots and iterators must be closed before."""


def getter_of(reader: Reader, family: Family) -> Get:
    """Return a function from keys of the family to their values or None, the fastest that the reader has."""
    factory: Callable[[Family], Get] | None = getattr(reader, "getter", None)
    return partial(reader.get, family) if factory is None else factory(family)


def keys_of_ranges(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """Return the keys in many ranges, in sequence, by the reader's fastest method."""
    read: Callable[..., Iterator[bytes]] | None = getattr(reader, "of_ranges", None)
    return each_keys(reader, family, ranges) if read is None else read(family, ranges, False)


def values_of_ranges(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """Return the values in many ranges, in sequence, by the reader's fastest method."""
    read: Callable[..., Iterator[bytes]] | None = getattr(reader, "of_ranges", None)
    return each_values(reader, family, ranges) if read is None else read(family, ranges, True)


def seeking(reader: Reader, family: Family, end: bytes, *, pairs: bool) -> Sought | None:
    """Return an iterator over the keys, or pairs, below `end` that can seek upwards; None if the reader has none."""
    factory: Callable[..., Sought | None] | None = getattr(reader, "sought", None)
    return None if factory is None else factory(family, end, pairs=pairs)


def each_keys(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """Return the keys in many ranges, with one iterator per range."""
    return chain.from_iterable(reader.keys(family, start, end) for start, end in ranges)


def each_values(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """Return the values in many ranges, with one iterator per range."""
    return chain.from_iterable(reader.values(family, start, end) for start, end in ranges)
