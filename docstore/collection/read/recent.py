"""A map that evicts entries not used recently."""

from __future__ import annotations

from typing import Generic, TypeVar

from docstore.collection.limits import MAX_RECENT_ENTRIES

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A map of at most 200 entries in two generations: the older one is dropped when the newer one is full."""

    __slots__ = ("_new", "_old")

    def __init__(self) -> None:
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        try:
            return self._new[key]
        except KeyError:
            value = self._old[key]
        self.put(key, value)
        return value

    def get(self, key: K) -> V | None:
        return self[key] if key in self._new or key in self._old else None

    def put(self, key: K, value: V) -> None:
        if len(self._new) >= MAX_RECENT_ENTRIES // 2 and key not in self._new:
            self._old, self._new = self._new, {}
        self._new[key] = value

    def drop(self, key: K) -> None:
        self._new.pop(key, None)
        self._old.pop(key, None)

    def all(self) -> dict[K, V]:
        return {**self._old, **self._new}
