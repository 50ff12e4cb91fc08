"""The in-memory engine, for tests and for `--storageEngine inMemory`.

Each family is a `SortedDict`. Taking a snapshot copies nothing: while one is open, a write saves the values that it
replaces in the newest open version. An older snapshot reads its own saved values, then those of every newer version,
then the present. A closed version passes its saved values to the next older one.

* A version is in the list while it has a handle.
* Its `saved` has the value, as of the version's creation, of every key changed before the next version was created.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sortedcontainers import SortedDict

from docstore.storage.engine import Batch, Family, StorageError
from docstore.storage.load import BatchLoad

_CHUNK = 256
"""Keys read ahead by an iterator: the map may change between two chunks, never inside one."""


class _Version:
    """A state that still has readers; versions form a list from old to new."""

    __slots__ = ("handles", "newer", "older", "saved")

    def __init__(self, older: _Version | None) -> None:
        self.saved: dict[Family, SortedDict] = {}
        self.handles = 0
        self.older = older
        self.newer: _Version | None = None
        if older is not None:
            older.newer = self


class MemoryEngine:
    """The engine; see the module. Nothing survives `close`, and `flush` does nothing."""

    def __init__(self) -> None:
        self._maps: tuple[SortedDict, ...] = tuple(SortedDict() for _ in Family)
        self._newest: _Version | None = None
        self._loads: list[BatchLoad] = []
        self._writes = 0

    def get(self, family: Family, key: bytes) -> bytes | None:
        value: bytes | None = self._maps[family].get(key)
        return value

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.snapshot().items(family, start, end, reverse)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return self.snapshot().keys(family, start, end, reverse)

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return self.snapshot().values(family, start, end, reverse)

    def write(self, batch: Batch) -> None:
        self._writes += 1
        for family, start, end in batch.ranges:
            for key in list(self._maps[family].irange(start, end, (True, False))):
                self._change(family, key, None)
        for family, changes in zip(Family, batch.changes, strict=True):
            for key, value in changes.items():
                self._change(family, key, value)
        for load in self._loads:
            load.later.note(batch)

    def begin_load(self, family: Family, start: bytes, end: bytes) -> BatchLoad:
        return BatchLoad(self._loads, self.write, family, start, end)

    def _change(self, family: Family, key: bytes, value: bytes | None) -> None:
        current = self._maps[family]
        if self._newest is not None:
            saved = self._newest.saved.get(family)
            if saved is None:
                saved = self._newest.saved[family] = SortedDict()
            if key not in saved:
                saved[key] = current.get(key)
        if value is None:
            current.pop(key, None)
        else:
            current[key] = value

    def snapshot(self) -> MemorySnapshot:
        newest = self._newest
        if newest is None or newest.saved:
            newest = self._newest = _Version(newest)
        newest.handles += 1
        return MemorySnapshot(self, newest)

    def release(self, version: _Version) -> None:
        """Drop one handle; the last one passes the saved values to the next older version and unlinks this one."""
        version.handles -= 1
        if version.handles:
            return
        older, newer = version.older, version.newer
        if older is not None:
            older.newer = newer
            for family, mine in version.saved.items():
                theirs = older.saved.get(family)
                if theirs is None:
                    older.saved[family] = mine
                    continue
                for key, value in mine.items():
                    theirs.setdefault(key, value)
        if newer is not None:
            newer.older = older
        else:
            self._newest = older

    def flush(self) -> None:
        return

    def checkpoint(self, path: str) -> None:
        raise StorageError("the inMemory engine keeps nothing on disk: there is no checkpoint to make")

    def compact_removed(self) -> None:
        return

    def hold_files(self) -> bool:
        return True

    def release_files(self) -> None:
        return

    def ratio(self, family: Family) -> float:
        return 1.0

    def stats(self) -> dict[str, Any]:
        return {"name": "inMemory", "keys": sum(map(len, self._maps)), "batches": self._writes}

    def close(self) -> None:
        return

    def at(self, version: _Version, family: Family, key: bytes) -> bytes | None:
        """Return the value of `key` in `version`."""
        value: bytes | None
        step: _Version | None = version
        while step is not None:
            saved = step.saved.get(family)
            if saved is not None and key in saved:
                value = saved[key]
                return value
            step = step.newer
        value = self._maps[family].get(key)
        return value

    def next_keys(
        self, version: _Version, family: Family, low: bytes, high: bytes, closed: tuple[bool, bool], reverse: bool
    ) -> list[bytes]:
        """Return up to `_CHUNK` keys in order that existed in the range at some time since `version`.

        The caller skips those that did not exist in `version`.
        """
        keys: set[bytes] = set(islice(self._maps[family].irange(low, high, closed, reverse), _CHUNK))
        step: _Version | None = version
        while step is not None:
            saved = step.saved.get(family)
            if saved is not None:
                keys.update(islice(saved.irange(low, high, closed, reverse), _CHUNK))
            step = step.newer
        return sorted(keys, reverse=reverse)[:_CHUNK]


class MemorySnapshot:
    """A snapshot; see the module."""

    __slots__ = ("_engine", "_version")

    def __init__(self, engine: MemoryEngine, version: _Version) -> None:
        self._engine = engine
        self._version: _Version | None = version

    def _open_version(self) -> _Version:
        if self._version is None:
            raise StorageError("the snapshot is closed")
        return self._version

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._engine.at(self._open_version(), family, key)

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        # The generator has its own handle on the version, so that it outlives the snapshot.
        version = self._open_version()
        version.handles += 1
        return self._walk(MemorySnapshot(self._engine, version), family, start, end, reverse)

    @staticmethod
    def _walk(
        snapshot: MemorySnapshot, family: Family, start: bytes, end: bytes, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        version, engine = snapshot._open_version(), snapshot._engine
        low, high, closed = start, end, (True, False)
        while low < high:
            keys = engine.next_keys(version, family, low, high, closed, reverse)
            for key in keys:
                value = engine.at(version, family, key)
                if value is not None:
                    yield key, value
            if len(keys) < _CHUNK:
                break
            if reverse:
                high, closed = keys[-1], (True, False)
            else:
                low, closed = keys[-1], (False, False)
        snapshot.close()

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return (key for key, _ in self.items(family, start, end, reverse))

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return (value for _, value in self.items(family, start, end, reverse))

    def close(self) -> None:
        if self._version is not None:
            version, self._version = self._version, None
            self._engine.release(version)

    def __del__(self) -> None:
        # For abandoned iterators and unclosed snapshots: release the version.
        self.close()
