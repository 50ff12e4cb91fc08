# cython: annotation_typing=False
"""Snapshots over RocksDB, whose own ones rocksdict can read by key but not iterate.

An iterator of rocksdict shows the state at its creation, even if requested from a snapshot. So a snapshot that is older
than the last write is iterated through another state, the base, and the keys written in between are corrected: their
values at the snapshot can be read by key.

* While few keys were written the base is the newest state. Reads of other keys, and ranges without written keys, then
  cost as much as reads of the newest state.
* When they become many, or a range is removed, iterators are created just before the write and kept as the base
  (pinned). No further keys are recorded then.

A version is one state that may still have readers; versions form a list from old to new. Invariants:

* `touched` has every key written since the version was created, until the next one was created or it was `pinned`.
* A pinned version's iterators show a state that differs from its own only in keys of `touched`.
* Hence a version and its base differ only in keys touched in it and in newer versions up to the first pinned one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

import cython
from rocksdict import ReadOptions

from docstore.kernel.log.batches import note_keys
from docstore.kernel.scan.kept import CurrentValues
from docstore.kernel.scan.watched import Moved, Sought, Walk, WalkChecks
from docstore.storage.engine import (
    Batch,
    DataCorrupted,
    Family,
    Get,
    Range,
    StorageError,
)

_MISS = "key not found"
MAX_TOUCHED_KEYS = 4_096
"""Written keys that are recorded for open snapshots, before iterators are pinned."""
MAX_INSERTED_KEYS = 64
"""Keys that are inserted singly into a sorted list; more are sorted with it."""

_CHUNK = 128

_key_of = itemgetter(0)


class _Version:
    """One state.

    * `snapshots`: RocksDB's, one per family; empty once the engine is closed.
    * `touched`: by family, the touched keys in the order of their first write; `count`: their number.
    * `number`: unique among versions.
    """

    __slots__ = ("count", "handles", "newer", "number", "older", "pinned", "snapshots", "touched", "written")

    def __init__(self, families: tuple[Any, ...], older: _Version | None, number: int) -> None:
        # Consistent: writes come from this thread only.
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
    """The versions of one engine. `writes`: the number of writes so far."""

    def __init__(self, families: tuple[Any, ...], newest: tuple[Get, ...]) -> None:
        """`newest`: by family, the function that returns the newest value of a key."""
        self._families = families
        self.newest = newest
        self._newest: _Version | None = None
        self._made = 0
        self.writes = 0

    @cython.ccall
    def hold(self) -> _Version:
        """Return the present state with a handle; `release` it."""
        version = self._newest
        if version is None or version.written:
            self._made += 1
            version = self._newest = _Version(self._families, version, self._made)
        version.handles += 1
        return version

    def release(self, version: _Version) -> None:
        """Drop one handle. The newest version stays until the next write, because the next reader probably needs it."""
        version.handles -= 1
        if not version.handles and version is not self._newest:
            self._drop(version)

    def _drop(self, version: _Version) -> None:
        older, newer = version.older, version.newer
        if older is not None:
            older.newer = newer
            if not older.pinned:
                if version.touched:
                    for mine, newer_keys in zip(_touched(older), version.touched, strict=True):
                        mine.update(newer_keys)
                    older.count = sum(map(len, older.touched))
                older.pinned = version.pinned
        if newer is not None:
            newer.older = older
        else:
            self._newest = older

    @cython.ccall
    def before_write(self, batch: Batch) -> None:
        """Record the keys that the batch is going to change."""
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
        if batch.ranges or version.count > MAX_TOUCHED_KEYS:
            version.pinned = tuple([family.iter() for family in self._families])
        else:
            version.count = note_keys(_touched(version), batch.changes)

    def base_of(self, version: _Version, family: Family) -> Any | None:
        """Return the iterator that serves as the version's base; None for the newest state."""
        step: _Version | None = version
        while step is not None:
            if step.pinned:
                return step.pinned[family]
            step = step.newer
        return None

    @cython.ccall
    def may_differ(self, version: _Version, family: Family, key: bytes) -> bool:
        """Return False only if the newest state has the same value as the version."""
        step: _Version | None = version
        while step is not None:
            if step.pinned or (step.touched and key in step.touched[family]):
                return True
            step = step.newer
        return False

    def base(self, family: Family) -> Any:
        """Return the column family that iterates the newest state."""
        return self._families[family]

    @cython.ccall
    def walk(self, family: Family, yields: str, start: bytes, end: bytes, reverse: bool) -> Iterator[Any]:
        """Return the `keys`, `values` or `items` of a range in the newest state."""
        source = self._families[family]
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        return Walk(
            source.iter(options),
            options,
            start,
            end,
            reverse,
            yields,
            partial(_newest_walk, self, self.writes, source, options, yields, reverse),
            _WALK_CHECKS,
        )

    def close(self) -> None:
        """Release all snapshots and iterators."""
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
    """The sorted keys of a family that may differ between a version and its base, updated incrementally."""

    __slots__ = ("_seen", "keys", "writes")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.writes = -1
        self._seen: dict[int, int] = {}
        """Number of touched keys already added, by version number."""

    def update(self, version: _Version, family: Family) -> None:
        """Add the keys touched since the last call."""
        keys = self.keys
        counts: dict[int, int] = {}
        step: _Version | None = version
        while step is not None:
            if step.touched:
                touched = step.touched[family]
                fresh = len(touched) - self._seen.get(step.number, 0)
                counts[step.number] = len(touched)
                if fresh > MAX_INSERTED_KEYS:
                    keys = sorted({*keys, *islice(reversed(touched), fresh)})
                else:
                    for key in islice(reversed(touched), fresh):
                        index = bisect_left(keys, key)
                        if index == len(keys) or keys[index] != key:
                            keys.insert(index, key)
            step = None if step.pinned else step.newer
        self.keys = keys
        self._seen = counts


class RocksSnapshot:
    """A snapshot; see the module."""

    __slots__ = ("_differences", "_versions", "version")

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self.version: _Version | None = versions.hold()
        self._differences: dict[Family, _Differences] = {}

    @cython.ccall
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
        """Return the function of `docstore.storage.engine.getter_of`."""
        return CurrentValues(self, self._versions.newest[family], partial(self.get, family)).get

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        if not self._open_version().written:
            return self._versions.walk(family, "items", start, end, reverse)
        return self._changed_items(family, start, end, reverse)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self._open_version().written:
            return self._versions.walk(family, "keys", start, end, reverse)
        return (key for key, _ in self._changed_items(family, start, end, reverse))

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self._open_version().written:
            return self._versions.walk(family, "values", start, end, reverse)
        return (value for _, value in self._changed_items(family, start, end, reverse))

    def of_ranges(self, family: Family, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
        """Return the keys or values in many ranges (`docstore.storage.engine.keys_of_ranges`)."""
        if not self._open_version().written:
            return iterate_ranges(self._versions.base(family), ranges, values)
        return self._changed_ranges(family, ranges, values)

    def sought(self, family: Family, end: bytes, *, pairs: bool) -> Sought | None:
        """Return a seekable iterator (`docstore.storage.engine.seeking`), or None if the state has changed since."""
        return None if self._open_version().written else sought(self._versions.base(family), end, pairs=pairs)

    def close(self) -> None:
        if self.version is not None:
            version, self.version = self.version, None
            self._versions.release(version)

    def __del__(self) -> None:
        # For an unclosed snapshot: release the version.
        self.close()

    @cython.cfunc
    def _open_version(self) -> _Version:
        if self.version is None or not self.version.snapshots:
            raise StorageError("the snapshot is closed")
        return self.version

    def _changed_ranges(self, family: Family, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
        """Return the keys or values in the ranges; consecutive ranges without changed keys are read in one scan."""
        read = self.values if values else self.keys
        first = 0
        while first < len(ranges):
            keys, end = self._changed_keys(family), first
            if self._versions.base_of(self._open_version(), family) is None:
                while end < len(ranges) and not _has_key_within(keys, ranges[end]):
                    end += 1
            if end > first:
                yield from iterate_ranges(self._versions.base(family), ranges[first:end], values)
            else:
                end += 1
                yield from read(family, *ranges[first])
            first = end

    def _changed_items(self, family: Family, start: bytes, end: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Return the pairs of the base, with the changed keys corrected."""
        if start >= end:
            return iter(())
        keys = self._changed_keys(family)
        pinned = self._versions.base_of(self._open_version(), family)
        if pinned is None:
            stored = self._versions.walk(family, "items", start, end, reverse)
        else:
            stored = _pinned_items(pinned, start, end, reverse)
        own = keys[bisect_left(keys, start) : bisect_left(keys, end)]
        if not own:
            return stored
        if reverse:
            own.reverse()
        # Read now: the snapshot may be closed before the iterator is consumed.
        own_items = [(key, value) for key in own if (value := self.get(family, key)) is not None]
        changed = set(own)
        base_items = (item for item in stored if item[0] not in changed)
        return merge(base_items, own_items, key=_key_of, reverse=reverse)

    def _changed_keys(self, family: Family) -> list[bytes]:
        """Return the sorted keys that may differ between the snapshot and its base."""
        differences = self._differences.get(family)
        if differences is None:
            differences = self._differences[family] = _Differences()
        if differences.writes != self._versions.writes:
            differences.update(self._open_version(), family)
            differences.writes = self._versions.writes
        return differences.keys


def _has_key_within(keys: list[bytes], bounds: Range) -> bool:
    """Return True if one of the sorted keys lies in the range."""
    index = bisect_left(keys, bounds[0])
    return index < len(keys) and keys[index] < bounds[1]


def _pinned_items(walk: Any, start: bytes, end: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Return pairs from a shared iterator, which is repositioned for every chunk."""
    seek_key = end if reverse else start
    while True:
        chunk: list[tuple[bytes, bytes]] = []
        if reverse:
            walk.seek_for_prev(seek_key)
            if walk.valid() and walk.key() >= seek_key:
                walk.prev()
        else:
            walk.seek(seek_key)
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
        seek_key = chunk[-1][0] if reverse else chunk[-1][0] + b"\0"


def _newest_walk(
    versions: Versions, writes: int, source: Any, options: ReadOptions, yields: str, reverse: bool, key: bytes
) -> Iterator[Any] | None:
    """Return rocksdict's iterator from the key on; None if more was written than `writes`."""
    if versions.writes != writes:
        return None
    walk: Iterator[Any] = getattr(source, "items" if reverse and yields == "values" else yields)(reverse, key, options)
    return walk


def _check_end(walk: Any, yields: str, start: bytes, end: bytes, reverse: bool, newest: Any) -> None:
    """Check that `newest` is the last item of the range in the state of `walk`. Errors: DataCorrupted."""
    if reverse:
        walk.seek(start)
    else:
        walk.seek_for_prev(end)
    last = None
    key = walk.key()
    if key is None:
        check_status(walk)
    elif start <= key < end:
        pair = (key, walk.value())
        last = key if yields == "keys" else pair if reverse or yields == "items" else pair[1]
    if last != newest:
        raise DataCorrupted("a read ended before the end of its range: the disk holds a damaged block")


def check_status(walk: Any) -> None:
    """Raise the error that ended an iterator of rocksdict, if it was an error."""
    try:
        walk.status()
    except Exception as error:  # rocksdict raises nothing narrower
        raise read_error(error) from error


def read_error(error: Exception) -> StorageError:
    """Return this package's error for a failed read in rocksdict."""
    text = str(error)
    return DataCorrupted(text) if text.startswith("Corruption") else StorageError(f"a read failed: {text}")


def iterate_ranges(source: Any, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
    """Return the keys or values in the ranges, by one iterator created now that seeks from one range to the next.

    It detects damage itself. Its bound is the end of the last range, so tombstones behind that are not scanned.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(ranges[0][1] if len(ranges) == 1 else max([end for _, end in ranges], default=b""))
    return Moved(source.iter(options), options, ranges, values, check_status)


def sought(source: Any, end: bytes, *, pairs: bool) -> Sought:
    """Return an iterator, created now, over the entries below `end`, that can seek upwards."""
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    return Sought(source.iter(options), options, pairs, check_status)


_WALK_CHECKS = WalkChecks(check_status, _check_end)
