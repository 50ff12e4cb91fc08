"""Incremental freeing of large structures.

The interpreter frees an unreferenced object at once, with all its members. For millions of objects that blocks the
event loop too long. The owner of a possibly large object hands it to `free_later`; the process takes it apart in
slices (`sweep`). Objects with other references stay intact.

Without a process that sweeps (`wake` is not set) `free_later` does nothing, and the last reference is the caller's.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any

_AT_ONCE = 512
"""The number of members freed between two checks of the clock."""


def _references_to_a_local() -> int:
    local = object()
    return getrefcount(local)


_ALONE = _references_to_a_local()
"""The result of `getrefcount` for an object to which only one local variable refers."""


class DeferredFree:
    """The queue of objects to take apart. `wake` is called when the queue gets an object."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] | None = None
        self._heap: list[Any] = []

    def free_later(self, thing: object) -> None:
        """Take over an object to which the caller keeps no reference."""
        if self.wake is None:
            return
        self._heap.append(thing)
        if len(self._heap) == 1:
            self.wake()

    def sweep(self, clock: Callable[[], float], deadline: float) -> bool:
        """Take things apart until `deadline`; True when nothing is left."""
        while self._heap:
            for _ in range(_AT_ONCE):
                if not self._heap:
                    break
                if self._step():
                    break
            if clock() >= deadline:
                return not self._heap
        return True

    def clear(self) -> None:
        """Free everything at once: resources that it may reference are about to be closed."""
        self._heap.clear()

    def _step(self) -> bool:
        """Take apart one object, or some of its members; return whether that was much."""
        value = self._heap.pop()
        if getrefcount(value) > _ALONE:
            return False
        match value:
            case list():
                members = value[-_AT_ONCE:]
                del value[-_AT_ONCE:]
            case dict():
                members = [member for _ in range(min(len(value), _AT_ONCE)) for member in value.popitem()]
            case set() | deque():
                members = [value.pop() for _ in range(min(len(value), _AT_ONCE))]
            case _:
                members = gc.get_referents(value)
                # Dictionaries of plain values are not known to the garbage collector.
                self._heap += [member for member in members if gc.is_tracked(member) or type(member) is dict]
                return False
        if value:
            self._heap.append(value)
        self._heap += filter(gc.is_tracked, members)
        return len(members) > _AT_ONCE // 8


DEFERRED_FREE = DeferredFree()
"""The queue of the process."""

free_later = DEFERRED_FREE.free_later
