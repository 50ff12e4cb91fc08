"""Letting go of large structures a little at a time.

The interpreter frees what nobody refers to at once, down to the last member: for millions of objects that takes longer
than an event loop may be held. Whoever is done with something that may be large hands it to `free_later`; the process
takes it apart in slices (`sweep`). What others still refer to stays as it is.

Without a process that sweeps (`wake` is not set) `free_later` does nothing, and the last reference is the caller's.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any

_AT_ONCE = 512
"""Members that are let go between two looks at the clock."""


def _references_to_a_local() -> int:
    thing = object()
    return getrefcount(thing)


_ALONE = _references_to_a_local()
"""What `getrefcount` says of an object to which only one local variable refers."""


class DeferredFree:
    """What waits to be taken apart. `wake` is called when there is something."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] | None = None
        self._heap: list[Any] = []

    def free_later(self, thing: object) -> None:
        """Take over what the caller does not refer to any more when this returns."""
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
        """Let everything go at once: what it may hold on to is about to be closed."""
        self._heap.clear()

    def _step(self) -> bool:
        """Take one thing apart, or some members off it; whether that was much."""
        thing = self._heap.pop()
        if getrefcount(thing) > _ALONE:
            return False
        match thing:
            case list():
                members = thing[-_AT_ONCE:]
                del thing[-_AT_ONCE:]
            case dict():
                members = [member for _ in range(min(len(thing), _AT_ONCE)) for member in thing.popitem()]
            case set() | deque():
                members = [thing.pop() for _ in range(min(len(thing), _AT_ONCE))]
            case _:
                members = gc.get_referents(thing)
                # Dictionaries of plain values are not known to the garbage collector.
                self._heap += [member for member in members if gc.is_tracked(member) or type(member) is dict]
                return False
        if thing:
            self._heap.append(thing)
        self._heap += filter(gc.is_tracked, members)
        return len(members) > _AT_ONCE // 8


DEFERRED_FREE = DeferredFree()
"""That of the process."""

free_later = DEFERRED_FREE.free_later
