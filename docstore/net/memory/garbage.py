"""When a process collects garbage, and how it does so without holding its event loop.

The interpreter's own full collections come whenever enough objects have grown old, and their time grows with the number
of objects: a large pipeline would stop everybody. Here they come between two turns of the loop, when something may have
become garbage since the last one, and not while many more objects are in use than after it; after a while they come in
any case. Few objects may hold much memory: that a process has grown is a reason to look. Large structures that are
done with are taken apart in slices (`docstore.deferred_free`).

A process that has grown gives back what lies free (`FreeMemory`): large requests one after the other do not add up.
"""

from __future__ import annotations

import asyncio
import gc
import sys

from docstore.commands.supervision import SUPERVISION
from docstore.deferred_free import DEFERRED_FREE
from docstore.net.memory.allocator import give_back, resident_bytes

_COLLECT_AFTER = (2000, 10, 1 << 30)
"""The thresholds: young objects are looked at as ever, all of them only by `GarbageCollection`."""

_LOOK_SECONDS = 5.0
_LONGEST_SECONDS = 600.0
"""After this a collection is due, however much memory is in use."""

_AGED = 10
"""Collections of young objects after which a full one is worth its time."""

_MOST_BLOCKS = 200_000
"""Blocks of memory in use beyond those after the last collection, above which it is put off."""

_SLICE_SECONDS = 0.002

_WEIGHED_SECONDS = 0.25
_GROWN_BYTES = 32 * 1024 * 1024
"""Memory beyond the least there has been, from which some of it may lie free; beyond the least since the last
collection, from which some of it may be in cycles.
"""

_GAINED_BYTES = 4 * 1024 * 1024
_MOST_PATIENCE = 128
"""Looks from one attempt to the next when nothing lay free; those before are twice as many each time."""

_SOON = 4
_MOST_PATIENCE_AT_WORK = 16
"""The same where what was given back was taken again within `_SOON` looks."""


class GarbageCollection:
    """The full collections of a process, and what it frees in slices."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._blocks = self._resident = 0
        self._collected = 0.0
        self._heavy = SUPERVISION.heavy
        self._timer: asyncio.Handle | None = None
        self._free = FreeMemory(loop)

    def start(self) -> None:
        """What there is now stays: it is never looked at again."""
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
        late = self._loop.time() >= self._collected + _LONGEST_SECONDS
        resident = resident_bytes()
        # What lay free then and has been given back hides nothing.
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
            # Not at once: whoever waits for the loop comes first.
            self._loop.call_later(_SLICE_SECONDS / 4, self._sweep)


class FreeMemory:
    """Gives back what lies free, on a thread: soon after the process has grown or a request that made much has ended,
    ever more rarely in vain, and not so often what is taken again at once: each batch of a long read is as large as
    the one before, and new pages cost more than what is put into them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._least = 0
        self._left = 0
        self._patience = 1
        self._looks = 0
        self._gained = self._grown = False
        """Whether something lay free the last time, and whether as much is in use again."""
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
                self._patience = min(2 * self._patience, _MOST_PATIENCE_AT_WORK)
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
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
        self._looks = 0
        self._later()


def is_due(aged: int, more_blocks: int, *, late: bool) -> bool:
    """Whether to look at everything: after `aged` collections of young objects, with so much more memory in use."""
    return aged >= _AGED and (late or more_blocks <= _MOST_BLOCKS)
