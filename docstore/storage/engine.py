# cython: annotation_typing=False
"""What the rest of the system may ask of a key-value engine.

An engine keeps six ordered maps from bytes to bytes, the families. Invariants that every engine keeps, checked by
one contract suite on all of them and by a pair run in lockstep:

* `write` applies a batch whole or not at all, also when the process is killed in the middle of it;
* what `write` has accepted survives the end of the process; what a later `flush` has returned for survives power loss;
* an iterator shows the state at the moment it was made, whatever is written while it is read;
* ranges are half-open `[start, end)` and compare keys as unsigned bytes.

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
    """The ordered maps of an engine. The numbers are stored in undo records: never change them."""

    RECORDS = 0
    INDEXES = 1
    OPLOG = 2
    UNDO = 3
    META = 4
    WIDE = 5


Range = tuple[bytes, bytes]
Get = Callable[[bytes], bytes | None]


class StorageError(Exception):
    """The disk, or what stands on it, is not as it must be. Unless it is one of the kinds below, the outcome of a
    failed write is unknown: stop the process.
    """


class DiskFull(StorageError):
    """The disk has no room for the write, of which nothing will ever be seen. Reads go on."""


class DataCorrupted(StorageError):
    """What a read has found fails its checksum. Other reads, and writes, go on."""


class DatabaseLocked(StorageError):
    """Another process (or another engine of this one) has the directory open."""


class Urgency(IntEnum):
    """How far into the reserve of disk space a batch may go that needs room."""

    ORDINARY = 0
    """Not at all: documents of clients."""
    RECOVERY = 1
    """Until a quarter of it is left: a rollback, which puts back what stood."""
    CONSENSUS = 2
    """To its end: what a member must remember of elections."""


class Batch:
    """Changes that become visible and durable together.

    `changes[family]` maps a key to its new value, or to None when the key goes; a later change of a key replaces an
    earlier one. `ranges` are removed before `changes` apply, so `delete_range` forgets the pending changes inside it.
    Both are open to the caller that fills thousands of keys: they are the batch, not a view of it.
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
        """Remove every key in `[start, end)`, pending ones of this batch included."""
        pending = self.changes[family]
        for key in [key for key in pending if start <= key < end]:
            del pending[key]
        self.ranges.append((family, start, end))

    def __bool__(self) -> bool:
        return bool(self.ranges) or any(self.changes)


class Reader(Protocol):
    """Reads of one state: an engine (its newest), a snapshot, or a write unit (its own changes over the newest)."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...

    def items(
        self, family: Family, start: bytes, end: bytes, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]: ...

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]: ...


class Snapshot(Reader, Protocol):
    """One state, kept until `close`. Cheap to take; an open one costs the space of what has been overwritten since."""

    def close(self) -> None:
        """Let the state go. Reading afterwards is an error; closing twice is not."""


class Load(Protocol):
    """Many new entries of one family, all in the range that was named when it began.

    `step` makes them visible and durable, together; what has been written under one of their keys since the load began
    stands. A crash in the last step may leave entries that were to go: nobody may rely on the range before it is done.
    """

    entries: GatheredEntries
    """What is to come in; nothing may be added after the first step."""

    @property
    def full(self) -> bool:
        """Whether the load is large enough to be ended; another one goes on from there."""

    def step(self, deadline: float) -> bool:
        """Go on until the monotonic time `deadline`; True when all is done, after which nothing may follow.

        DiskFull when there is no room: the load is given up. StorageError: so it is.
        """

    def abandon(self) -> None:
        """Forget the entries. Twice, or after the last step, is harmless."""


class Engine(Reader, Protocol):
    """A store of six ordered maps."""

    def write(self, batch: Batch) -> None:
        """Apply the batch. It has survived the end of the process when this returns, but not yet power loss.

        DiskFull when there is no room for it; any other StorageError leaves the outcome open.
        """

    def begin_load(self, family: Family, start: bytes, end: bytes) -> Load:
        """Begin to bring many entries into `[start, end)`; end it or abandon it."""

    def snapshot(self) -> Snapshot: ...

    def flush(self) -> None:
        """Block until everything written before the call survives power loss. Not for an event loop's thread."""

    def checkpoint(self, path: str) -> None:
        """Make `path`, which must not exist, a database directory with the present state. StorageError where
        impossible.
        """

    def compact_removed(self) -> None:
        """See to it that keys that were removed cost readers nothing; to be called now and then."""

    def hold_files(self) -> bool:
        """Let no file be rewritten or removed until `release_files`, so that files can be copied; False while such
        work is still under way: ask again. Nothing may be written meanwhile.
        """

    def release_files(self) -> None: ...

    def ratio(self, family: Family) -> float:
        """How many bytes a byte of keys and values of the family takes where it is kept, on the average."""

    def stats(self) -> dict[str, Any]:
        """Figures for serverStatus: flat, of numbers and strings; the names depend on the engine."""

    def close(self) -> None:
        """Release the directory. Snapshots and iterators must be gone; closing twice is harmless."""


def getter_of(reader: Reader, family: Family) -> Get:
    """What gives the value behind a key of the family, or None, as the reader does it best."""
    made: Callable[[Family], Get] | None = getattr(reader, "getter", None)
    return partial(reader.get, family) if made is None else made(family)


def keys_of_ranges(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """The keys in many ranges, one after the other, as the reader does it best."""
    read: Callable[..., Iterator[bytes]] | None = getattr(reader, "of_ranges", None)
    return each_keys(reader, family, ranges) if read is None else read(family, ranges, False)


def values_of_ranges(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """As `keys_of_ranges`."""
    read: Callable[..., Iterator[bytes]] | None = getattr(reader, "of_ranges", None)
    return each_values(reader, family, ranges) if read is None else read(family, ranges, True)


def seeking(reader: Reader, family: Family, end: bytes, *, pairs: bool) -> Sought | None:
    """An iterator over the keys, or pairs, below `end`, that can be moved upwards; None where the reader has none."""
    made: Callable[..., Sought | None] | None = getattr(reader, "sought", None)
    return None if made is None else made(family, end, pairs=pairs)


def each_keys(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """The keys in many ranges by an iterator for each."""
    return chain.from_iterable(reader.keys(family, start, end) for start, end in ranges)


def each_values(reader: Reader, family: Family, ranges: Sequence[Range]) -> Iterator[bytes]:
    """As `each_keys`."""
    return chain.from_iterable(reader.values(family, start, end) for start, end in ranges)
