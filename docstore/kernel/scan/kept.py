"""A cache of values by key, with CLOCK eviction.

Invariant: after a writer has reported its changes (`change`, `forget`), the cache returns the values that `read` would.
Not thread-safe: all calls must come from one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from docstore.kernel.limits import MIN_CACHED_VALUES

_OVERHEAD: cython.Py_ssize_t = 150
"""Bytes charged for an entry besides its key and its value."""


class KeptValues:
    """Caches up to `most_bytes` of the values of `read`. Evicts by CLOCK: the hand skips, once, entries read since its
    last pass.
    """

    _read: Callable[[bytes], bytes | None]
    _most: cython.Py_ssize_t
    _largest: cython.Py_ssize_t
    _slots: dict[bytes, int]
    _keys: list[bytes | None]
    """The keys by slot; None for a free slot."""
    _values: list[bytes]
    _reference_bits: bytearray
    """A reference bit for each slot: the entry was read again."""
    _free: list[int]
    _hand: cython.Py_ssize_t
    _bytes: cython.Py_ssize_t

    def __init__(self, read: Callable[[bytes], bytes | None], most_bytes: cython.Py_ssize_t) -> None:
        self._read = read
        self._most = most_bytes
        self._largest = most_bytes // MIN_CACHED_VALUES
        self.forget()

    @cython.ccall
    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key. Errors: those of `read`."""
        value: bytes | None
        slot: cython.Py_ssize_t
        slot_number: object = self._slots.get(key)
        if slot_number is not None:
            slot = slot_number  # type: ignore[assignment]
            self._reference_bits[slot] = 1
            return self._values[slot]
        value = self._read(key)
        if value is not None and len(value) <= self._largest:
            self._keep(key, value)
        return value

    def _keep(self, key: bytes, value: bytes) -> cython.int:
        slot: cython.Py_ssize_t
        self._bytes += len(key) + len(value) + _OVERHEAD
        while self._bytes > self._most:
            self._make_way()
        if len(self._free) > 0:
            slot = self._free.pop()
            self._keys[slot] = key
            self._values[slot] = value
            self._reference_bits[slot] = 0
        else:
            slot = len(self._keys)
            self._keys.append(key)
            self._values.append(value)
            self._reference_bits.append(0)
        self._slots[key] = slot
        return 0

    def _make_way(self) -> cython.int:
        """Evict the entry that the hand selects. There is one: a new value is smaller than the capacity."""
        key: bytes | None
        slot: cython.Py_ssize_t
        while True:
            if self._hand >= len(self._keys):
                self._hand = 0
            slot = self._hand
            # Advance the hand past the freed slot: the new entry gets it, and must not be the next to be evicted.
            self._hand += 1
            key = self._keys[slot]
            if key is not None:
                if not self._reference_bits[slot]:
                    return self._drop(key, slot)
                self._reference_bits[slot] = 0

    def _drop(self, key: bytes, slot: cython.Py_ssize_t) -> cython.int:
        self._bytes -= len(key) + len(self._values[slot]) + _OVERHEAD
        del self._slots[key]
        self._keys[slot] = None
        self._values[slot] = b""
        self._free.append(slot)
        return 0

    def change(self, changes: dict[bytes, bytes | None]) -> None:
        """Update the values of these keys; None: the key has no value."""
        key: bytes
        value: bytes | None
        slot: cython.Py_ssize_t
        if not self._slots:
            return
        for key in changes:
            slot_number: object = self._slots.get(key)
            if slot_number is not None:
                slot = slot_number  # type: ignore[assignment]
                value = changes[key]
                self._drop(key, slot)
                if value is not None and len(value) <= self._largest:
                    self._keep(key, value)

    def forget(self) -> None:
        """Clear the cache: any value may have changed."""
        self._slots = {}
        self._keys = []
        self._values = []
        self._reference_bits = bytearray()
        self._free = []
        self._hand = 0
        self._bytes = 0


class CurrentValues:
    """Reads one column family in a `snapshot`: by `newest` while nothing has been written since the snapshot
    (`snapshot.version.written`). After that, and after the snapshot is closed (it has no version then), by
    `get_cached`.
    """

    _snapshot: object
    _newest: Callable[[bytes], bytes | None]
    _get_cached: Callable[[bytes], bytes | None]

    def __init__(
        self, snapshot: object, newest: Callable[[bytes], bytes | None], get_cached: Callable[[bytes], bytes | None]
    ) -> None:
        self._snapshot = snapshot
        self._newest = newest
        self._get_cached = get_cached

    @cython.ccall
    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key. Errors: those of the snapshot."""
        version: Any = self._snapshot.version  # type: ignore[attr-defined]
        return self._get_cached(key) if version is None or version.written else self._newest(key)
