# cython: annotation_typing=False
"""Snapshots over RocksDB, whose own can be read by key but, through rocksdict, not be iterated.

An iterator of rocksdict shows the state at the moment it was made, also one that a snapshot was asked for. So a
snapshot that was followed by writes is iterated as another state, the base, with the keys that have been written in
between put right: their values at the snapshot can be read by key. The base is the newest state while few keys were
written; when they become many, or a range is removed, iterators are made just before the write and kept as the base,
and nothing more is remembered. While the base is the newest state, reads by key of what was not written, and ranges
without written keys, are reads of the newest state, and cost what those cost.

A version is one state that somebody may still read; versions form a list from old to new. Invariants: `touched`
holds every key written since the version was made, until the next one was made or until it was `pinned`; a pinned
version's iterators show the state in which only keys of `touched` differ from its own; so what differs between a
version and its base are the keys touched in it and in the newer ones up to the first pinned one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from rocksdict import ReadOptions

from docstore.kernel.log.batches import note_keys
from docstore.kernel.scan.kept import CurrentValues
from docstore.kernel.scan.watched import Moved, Sought, Watched
from docstore.storage.engine import (
    Batch,
    DataCorrupted,
    Family,
    Get,
    Range,
    StorageError,
)

_MISS = "key not found"
MOST_TOUCHED = 4_096
"""Written keys that are remembered for open snapshots before iterators are pinned instead."""

_CHUNK = 128
_FEW_KEYS = 64
"""Keys that are put into a sorted list one by one; more are sorted with it."""

_key_of = itemgetter(0)


class _Version:
    """One state. `snapshots` are RocksDB's, one for each family, empty once the engine is closed. `touched`: by
    family, the touched keys in the order in which they were written first; `count`: how many; `number`: no other
    version has it.
    """

    __slots__ = ("count", "handles", "newer", "number", "older", "pinned", "snapshots", "touched", "written")

    def __init__(self, families: tuple[Any, ...], older: _Version | None, number: int) -> None:
        # Nothing is written between these calls: writes come from this thread.
        self.snapshots: tuple[Any, ...] = tuple([family.snapshot() for family in families])
        self.number = number
        self.handles = 0
        self.written = False
        self.touched: tuple[dict[bytes, None], ...] = ()
        self.count = 0
        self.pinned: tuple[Any, ...] = ()
        self.newer: _Version | None = None
        self.older = older
        if older is not None:
            older.newer = self


class Versions:
    """The versions of one engine. `writes` counts the writes so far."""

    def __init__(self, families: tuple[Any, ...], newest: tuple[Get, ...]) -> None:
        """`newest`: what gives the value behind a key, by family."""
        self._families = families
        self.newest = newest
        self._newest: _Version | None = None
        self._made = 0
        self.writes = 0

    def hold(self) -> _Version:
        """The present state, held until `release`."""
        version = self._newest
        if version is None or version.written:
            self._made += 1
            version = self._newest = _Version(self._families, version, self._made)
        version.handles += 1
        return version

    def release(self, version: _Version) -> None:
        """One holder less. The newest version stays until the next write: the next reader is likely to want it."""
        version.handles -= 1
        if not version.handles and version is not self._newest:
            self._drop(version)

    def _drop(self, version: _Version) -> None:
        older, newer = version.older, version.newer
        if older is not None:
            older.newer = newer
            if not older.pinned:
                if version.touched:
                    for mine, more in zip(_touched(older), version.touched, strict=True):
                        mine.update(more)
                    older.count = sum(map(len, older.touched))
                older.pinned = version.pinned
        if newer is not None:
            newer.older = older
        else:
            self._newest = older

    def before_write(self, batch: Batch) -> None:
        """Note what the batch is going to change."""
        self.writes += 1
        version = self._newest
        if version is not None and not version.handles:
            self._drop(version)
            version = self._newest
        if version is None:
            return
        version.written = True
        if version.pinned:
            return
        if batch.ranges or version.count > MOST_TOUCHED:
            version.pinned = tuple([family.iter() for family in self._families])
        else:
            version.count = note_keys(_touched(version), batch.changes)

    def base_of(self, version: _Version, family: Family) -> Any | None:
        """Return the iterator that a version is iterated by, None for the newest state."""
        step: _Version | None = version
        while step is not None:
            if step.pinned:
                return step.pinned[family]
            step = step.newer
        return None

    def may_differ(self, version: _Version, family: Family, key: bytes) -> bool:
        """Return False only where the newest state has the value that the version has."""
        step: _Version | None = version
        while step is not None:
            if step.pinned or (step.touched and key in step.touched[family]):
                return True
            step = step.newer
        return False

    def base(self, family: Family) -> Any:
        """What to iterate for the newest state."""
        return self._families[family]

    def close(self) -> None:
        """Let every snapshot and iterator go."""
        version = self._newest
        while version is not None:
            version.snapshots = version.pinned = ()
            version.written = True
            version = version.older
        self._families = self.newest = ()
        self._newest = None


def _touched(version: _Version) -> tuple[dict[bytes, None], ...]:
    if not version.touched:
        version.touched = tuple([{} for _ in Family])
    return version.touched


class _Differences:
    """The keys of a family that may differ between a version and its base, in order, kept up with what is written."""

    __slots__ = ("_seen", "keys", "writes")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.writes = -1
        self._seen: dict[int, int] = {}
        """Touched keys that were taken over, by the number of the version."""

    def update(self, version: _Version, family: Family) -> None:
        """Take over what was touched since the last call."""
        keys = self.keys
        seen: dict[int, int] = {}
        step: _Version | None = version
        while step is not None:
            if step.touched:
                touched = step.touched[family]
                fresh = len(touched) - self._seen.get(step.number, 0)
                seen[step.number] = len(touched)
                if fresh > _FEW_KEYS:
                    keys = sorted({*keys, *islice(reversed(touched), fresh)})
                else:
                    for key in islice(reversed(touched), fresh):
                        place = bisect_left(keys, key)
                        if place == len(keys) or keys[place] != key:
                            keys.insert(place, key)
            step = None if step.pinned else step.newer
        self.keys = keys
        self._seen = seen


class RocksSnapshot:
    """See the module; satisfies `Snapshot`."""

    __slots__ = ("_differences", "_versions", "version")

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self.version: _Version | None = versions.hold()
        self._differences: dict[Family, _Differences] = {}

    def get(self, family: Family, key: bytes) -> bytes | None:
        version = self.version
        if version is None or not version.snapshots:
            raise StorageError("the snapshot is closed")
        if not version.written or not self._versions.may_differ(version, family, key):
            return self._versions.newest[family](key)
        try:
            value: bytes = version.snapshots[family][key]
        except Exception as error:  # rocksdict raises nothing narrower
            if str(error) == _MISS:
                return None
            raise read_error(error) from error
        return value

    def getter(self, family: Family) -> Get:
        """What gives the value behind a key (`docstore.storage.engine.getter_of`)."""
        return CurrentValues(self, self._versions.newest[family], partial(self.get, family)).get

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        if not self._open_version().written:
            return items_of(self._versions.base(family), start, end, reverse)
        return self._changed_items(family, start, end, reverse)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self._open_version().written:
            return keys_of(self._versions.base(family), start, end, reverse)
        return (key for key, _ in self._changed_items(family, start, end, reverse))

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self._open_version().written:
            return values_of(self._versions.base(family), start, end, reverse)
        return (value for _, value in self._changed_items(family, start, end, reverse))

    def of_ranges(self, family: Family, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
        """The keys or values in many ranges (`docstore.storage.engine.keys_of_ranges`)."""
        if not self._open_version().written:
            return within(self._versions.base(family), ranges, values)
        return self._changed_ranges(family, ranges, values)

    def sought(self, family: Family, end: bytes, *, pairs: bool) -> Sought | None:
        """An iterator that can be moved (`docstore.storage.engine.seeking`)."""
        return None if self._open_version().written else sought(self._versions.base(family), end, pairs=pairs)

    def close(self) -> None:
        if self.version is not None:
            version, self.version = self.version, None
            self._versions.release(version)

    def __del__(self) -> None:
        # A reader that forgot: the version must not be kept for ever.
        self.close()

    def _open_version(self) -> _Version:
        if self.version is None or not self.version.snapshots:
            raise StorageError("the snapshot is closed")
        return self.version

    def _changed_ranges(self, family: Family, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
        """The keys or values in the ranges; those in a row without changed keys are read at once."""
        read = self.values if values else self.keys
        first = 0
        while first < len(ranges):
            keys, end = self._changed_keys(family), first
            if self._versions.base_of(self._open_version(), family) is None:
                while end < len(ranges) and not _has_key_within(keys, ranges[end]):
                    end += 1
            if end > first:
                yield from within(self._versions.base(family), ranges[first:end], values)
            else:
                end += 1
                yield from read(family, *ranges[first])
            first = end

    def _changed_items(self, family: Family, start: bytes, end: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The pairs of the base, with those keys put right that may differ from the snapshot."""
        if start >= end:
            return iter(())
        keys = self._changed_keys(family)
        pinned = self._versions.base_of(self._open_version(), family)
        if pinned is None:
            stored = items_of(self._versions.base(family), start, end, reverse)
        else:
            stored = _pinned_items(pinned, start, end, reverse)
        own = keys[bisect_left(keys, start) : bisect_left(keys, end)]
        if not own:
            return stored
        if reverse:
            own.reverse()
        # Read now: the snapshot may be closed before the iterator has been read.
        found = [(key, value) for key in own if (value := self.get(family, key)) is not None]
        changed = set(own)
        kept = (item for item in stored if item[0] not in changed)
        return merge(kept, found, key=_key_of, reverse=reverse)

    def _changed_keys(self, family: Family) -> list[bytes]:
        """The keys that may differ between the snapshot and its base, in order."""
        differences = self._differences.get(family)
        if differences is None:
            differences = self._differences[family] = _Differences()
        if differences.writes != self._versions.writes:
            differences.update(self._open_version(), family)
            differences.writes = self._versions.writes
        return differences.keys


def _has_key_within(keys: list[bytes], bounds: Range) -> bool:
    """Return whether one of the sorted keys lies in the range."""
    place = bisect_left(keys, bounds[0])
    return place < len(keys) and keys[place] < bounds[1]


def _pinned_items(walk: Any, start: bytes, end: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Pairs from an iterator that others use too: it is moved to its place for every chunk."""
    place = end if reverse else start
    while True:
        chunk: list[tuple[bytes, bytes]] = []
        if reverse:
            walk.seek_for_prev(place)
            if walk.valid() and walk.key() >= place:
                walk.prev()
        else:
            walk.seek(place)
        while walk.valid() and len(chunk) < _CHUNK:
            key = walk.key()
            if key < start or key >= end:
                break
            chunk.append((key, walk.value()))
            if reverse:
                walk.prev()
            else:
                walk.next()
        if not walk.valid():
            check_status(walk)
        yield from chunk
        if len(chunk) < _CHUNK:
            return
        place = chunk[-1][0] if reverse else chunk[-1][0] + b"\0"


def _watched(source: Any, make: str, start: bytes, end: bytes, reverse: bool, **traits: bool) -> Iterator[Any]:
    """What rocksdict's method `make` iterates of `[start, end)`, ended by the range and by nothing else.

    rocksdict's iterators end at a damaged block as they do at the end of their range. So a second iterator over the
    same state looks, when the first one has ended, whether what was given last is the last there is.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    walk = getattr(source, make)(reverse, end if reverse else start, options)
    # The bound is read where it stands in the options: they live as long as the iteration because they are named here.
    at_end = partial(_check_end, options, source.iter(), make, start, end, reverse)
    return Watched(walk, at_end, start if reverse else None, **traits)


def _check_end(
    _options: ReadOptions, probe: Any, make: str, start: bytes, end: bytes, reverse: bool, newest: Any
) -> None:
    """DataCorrupted unless `newest` is the last of the range in the state of `probe`."""
    if reverse:
        probe.seek(start)
    else:
        probe.seek_for_prev(end)
        if probe.valid() and probe.key() >= end:
            probe.prev()
    last = None
    if not probe.valid():
        check_status(probe)
    elif start <= (key := probe.key()) < end:
        last = key if make == "keys" else probe.value() if make == "values" else (key, probe.value())
    if last != newest:
        raise DataCorrupted("a read ended before the end of its range: the disk holds a damaged block")


def check_status(walk: Any) -> None:
    """Raise what has ended an iterator of rocksdict; nothing when it was the end of the data."""
    try:
        walk.status()
    except Exception as error:  # rocksdict raises nothing narrower
        raise read_error(error) from error


def read_error(error: Exception) -> StorageError:
    """What a read that failed in rocksdict means."""
    text = str(error)
    return DataCorrupted(text) if text.startswith("Corruption") else StorageError(f"a read failed: {text}")


def items_of(source: Any, start: bytes, end: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    return _watched(source, "items", start, end, reverse, pairs=True)


def keys_of(source: Any, start: bytes, end: bytes, reverse: bool) -> Iterator[bytes]:
    return _watched(source, "keys", start, end, reverse)


def values_of(source: Any, start: bytes, end: bytes, reverse: bool) -> Iterator[bytes]:
    if not reverse:
        return _watched(source, "values", start, end, reverse)
    return _watched(source, "items", start, end, reverse, second=True)


def within(source: Any, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
    """The keys or values in the ranges, by an iterator made now that is moved from one to the next.

    That one tells damage from an end itself. What was removed behind the last range is not gone through: it is the
    bound.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(ranges[0][1] if len(ranges) == 1 else max([end for _, end in ranges], default=b""))
    return Moved(source.iter(options), options, ranges, values, check_status)


def sought(source: Any, end: bytes, *, pairs: bool) -> Sought:
    """An iterator, made now, over what stands below `end`, that can be moved upwards."""
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    return Sought(source.iter(options), options, pairs, check_status)
