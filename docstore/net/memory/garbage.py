"""Scheduling of garbage collection, so that it does not hold the event loop.

The interpreter's full collections run whenever enough objects have aged, and take time proportional to the number of
objects: a large pipeline would block everyone. Here they run between two turns of the loop, if there may be new
garbage. They are postponed while many more objects are in use than after the last one, up to a maximum interval. Few
objects may hold much memory, so growth of the process triggers one too. Large structures are freed in slices
(`docstore.deferred_free`).

A process that has grown returns free memory (`FreeMemory`), so that successive large requests do not add up.
"""

from __future__ import annotations

import asyncio
import gc
import sys

from docstore.commands.supervision import SUPERVISION
from docstore.deferred_free import DEFERRED_FREE
from docstore.net.memory.allocator import give_back, resident_bytes

MAX_COLLECTION_SECONDS = 600.0
"""The interval after which a collection is due regardless of memory in use."""
MAX_NEW_BLOCKS = 200_000
"""Memory blocks in use beyond those after the last collection, above which it is postponed."""
MAX_PATIENCE_CHECKS = 128
"""Checks between two attempts that freed nothing; the number doubles each time."""
MAX_PATIENCE_CHECKS_AT_WORK = 16
"""The same if the freed memory was soon used again."""

_COLLECT_AFTER = (2000, 10, 1 << 30)
"""Thresholds: the interpreter collects young objects as usual, but only `GarbageCollection` collects all."""

_LOOK_SECONDS = 5.0
_AGED = 10
"""Young collections after which a full one is worthwhile."""

_SLICE_SECONDS = 0.002

_WEIGHED_SECONDS = 0.25
_GROWN_BYTES = 32 * 1024 * 1024
"""Growth that triggers action: above the minimum so far, memory may be free; above the minimum since the last
collection, it may be in cycles.
"""

_GAINED_BYTES = 4 * 1024 * 1024
_SOON = 4


class GarbageCollection:
    """The full collections of a process, and its deferred frees."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._blocks = self._resident = 0
        self._collected = 0.0
        self._heavy = SUPERVISION.heavy
        self._timer: asyncio.Handle | None = None
        self._free = FreeMemory(loop)

    def start(self) -> None:
        """Start; freeze the present objects, which are never examined again."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        DEFERRED_FREE.wake = self._wake
        self._collect()
        self._free.start()

    def stop(self) -> None:
        DEFERRED_FREE.wake = None
        self._free.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _collect(self) -> None:
        gc.collect()
        self._blocks = sys.getallocatedblocks()
        self._resident = resident_bytes()
        self._collected = self._loop.time()
        self._heavy = SUPERVISION.heavy
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        late = self._loop.time() >= self._collected + MAX_COLLECTION_SECONDS
        resident = resident_bytes()
        # Memory that was free then and has been returned must not mask growth.
        self._resident = min(self._resident, resident)
        grown = SUPERVISION.heavy != self._heavy or resident >= self._resident + _GROWN_BYTES
        aged = _AGED if grown else gc.get_count()[2]
        if is_due(aged, sys.getallocatedblocks() - self._blocks, late=late):
            self._collect()
        else:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _wake(self) -> None:
        self._loop.call_soon(self._sweep)

    def _sweep(self) -> None:
        if not DEFERRED_FREE.sweep(self._loop.time, self._loop.time() + _SLICE_SECONDS):
            # Later: other tasks waiting for the loop come first.
            self._loop.call_later(_SLICE_SECONDS / 4, self._sweep)


class FreeMemory:
    """Returns free memory to the system, on a thread, soon after the process has grown or an expensive request has
    ended.

    It backs off exponentially after attempts that freed nothing. It also backs off if the memory is used again at once:
    each batch of a long read is as large as the one before, and new pages cost more than filling them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._least = 0
        self._left = 0
        self._patience = 1
        self._looks = 0
        self._gained = self._grown = False
        """`_gained`: the last attempt freed memory. `_grown`: as much is in use again."""
        self._heavy = SUPERVISION.heavy
        self._timer: asyncio.Handle | None = None
        self._stopped = False

    def start(self) -> None:
        self._least = self._left = resident_bytes()
        self._later()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self) -> None:
        if not self._stopped:
            self._timer = self._loop.call_later(_WEIGHED_SECONDS, self._weigh)

    def _weigh(self) -> None:
        in_use = resident_bytes()
        self._least = min(self._least, in_use)
        self._looks += 1
        if self._heavy != SUPERVISION.heavy:
            self._heavy = SUPERVISION.heavy
            self._patience = self._looks = 1
        elif in_use >= self._left + _GROWN_BYTES and not self._grown:
            self._grown = True
            if self._gained and self._looks <= _SOON:
                self._patience = min(2 * self._patience, MAX_PATIENCE_CHECKS_AT_WORK)
            else:
                self._patience = self._looks = 1
        if in_use < self._least + _GROWN_BYTES or self._looks < self._patience:
            self._later()
        else:
            self._loop.run_in_executor(None, give_back).add_done_callback(lambda _: self._given_back(in_use))

    def _given_back(self, before: int) -> None:
        self._left = resident_bytes()
        self._gained = before - self._left >= _GAINED_BYTES
        self._grown = False
        if not self._gained:
            self._patience = min(2 * self._patience, MAX_PATIENCE_CHECKS)
        self._looks = 0
        self._later()


def is_due(aged: int, more_blocks: int, *, late: bool) -> bool:
    """True if a full collection is due after `aged` young collections and a growth of `more_blocks`."""
    return aged >= _AGED and (late or more_blocks <= MAX_NEW_BLOCKS)
