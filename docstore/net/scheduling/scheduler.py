"""The scheduler of a process: assigns slices of the event loop to long work.

Short requests run as they come, first in, first out. Long work runs in slices: it calls `begin_slice` at its start,
checks `is_due` between its steps, and awaits `pause` when that is True. A step should take at most `STEP_SECONDS`.

* A slice ends after the step in which a socket became ready, or a frame waits (`watch`); else after `SLICE_SECONDS`.
* The next slice begins once no socket is ready, so that all received requests are answered first, over as many turns of
  the loop as that takes. Long work as a whole gets at least a tenth of the time.
* One slice runs between two checks of the sockets, in the order of `docstore.net.scheduling.fair_queue.FairQueue`.

A socket is ready if the loop's epoll descriptor is: one system call of half a microsecond. A loop without one (a
simulated one) never sees a ready socket, and slices last `SLICE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from docstore.commands.supervision import SUPERVISION
from docstore.net.scheduling.fair_queue import BACKGROUND, FairQueue, Owner
from docstore.net.scheduling.limits import MAX_DEFERRAL_SLICES

if TYPE_CHECKING:
    from docstore.commands.context import Context
    from docstore.net.turn import Turn

STEP_SECONDS = 0.0005
"""Maximum duration of a step of long work, after which waiting requests are checked for.

A request that arrives meanwhile waits that long; shorter steps slow scans down (half of this: a `$group` by a sixth).
"""
FIRST_STEP_SECONDS = 0.003
"""How long a request may run in one step before it is restarted in steps that pause."""
SLICE_SECONDS = 0.008
"""Duration of a slice if nobody else wants the loop; timers and flushes must get through."""


def never_ready() -> bool:
    """Return False: the sockets cannot be checked."""
    return False


def socket_readiness(loop: asyncio.AbstractEventLoop) -> Callable[[], bool]:
    """Return a predicate that is True if a socket of `loop` is ready; `never_ready` for a loop that cannot tell."""
    # uvloop provides its descriptor; asyncio's selectors have one if they are epoll or kqueue.
    descriptor = getattr(loop, "_get_backend_id", None) or getattr(getattr(loop, "_selector", None), "fileno", None)
    if descriptor is None:
        return never_ready
    poll = select.poll()
    poll.register(descriptor(), select.POLLIN)
    look = poll.poll
    return lambda: bool(look(0))


class Scheduler:
    """Assigns the loop of a process to its long work. `clock`: monotonic seconds; `is_ready`: see `socket_readiness`.

    `slices`, `seconds`, `background_slices`, `deferrals`: the number of slices, their total time, those of background
    work, and the slices deferred because a socket was ready. `longest`, `longest_step`: seconds of the longest slice
    and the longest step, each with the name of its command (empty: background work).
    """

    def __init__(self, clock: Callable[[], float] = monotonic, is_ready: Callable[[], bool] = never_ready) -> None:
        self.slices = 0
        self.background_slices = 0
        self.deferrals = 0
        self.seconds = 0.0
        self.longest: tuple[float, str] = (0.0, "")
        self.longest_step: tuple[float, str] = (0.0, "")
        self.clock = clock
        self._socket_is_ready = is_ready
        self._turns: list[Turn] = []
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()
        self._scheduled = False
        # The owner of the current slice; None between slices.
        self._owner: Owner | None = None
        self._command = ""
        self._began = 0.0
        self._step_began = 0.0
        self._next_look = 0.0
        self._ends = 0.0
        # The end of the last slice.
        self._ended = 0.0
        self._last_seconds = 0.0

    @property
    def waiting(self) -> int:
        """The number of waiters for a slice."""
        return len(self._queue)

    def watch(self, turn: Turn) -> None:
        """Count frames held by `turn` as waiting requests."""
        self._turns.append(turn)

    def _is_ready(self) -> bool:
        """True if a frame waits or a socket is ready."""
        return any(turn.waits for turn in self._turns) or self._socket_is_ready()

    def status(self) -> dict[str, Any]:
        """Return the counters, for serverStatus; times in microseconds."""
        return {
            "slices": Int64(self.slices),
            "backgroundSlices": Int64(self.background_slices),
            "deferrals": Int64(self.deferrals),
            "waiting": self.waiting,
            "micros": Int64(self.seconds * 1e6),
            "longest": _described(self.longest),
            "longestStep": _described(self.longest_step),
        }

    def begin_slice(self) -> None:
        """Begin a slice of the running request, or of background work if there is none."""
        context = SUPERVISION.context
        self._owner, self._command = _owner_of(context), "" if context is None else context.command.name
        self._began = self._step_began = began = self.clock()
        self._next_look = began + STEP_SECONDS
        self._ends = began + SLICE_SECONDS

    def is_due(self) -> bool:
        """End a step; True if the slice is over, or others want the loop."""
        now = self.clock()
        self._end_step(now)
        if now < self._next_look:
            return False
        if now >= self._ends or self._is_ready():
            return True
        self._next_look = now + STEP_SECONDS
        return False

    def end_slice(self) -> None:
        """Count the current slice, if there is one."""
        owner = self._owner
        if owner is None:
            return
        self._owner = None
        self._ended = now = self.clock()
        self._end_step(now)
        self._last_seconds = seconds = now - self._began
        self.slices += 1
        self.seconds += seconds
        if owner.user is None:
            self.background_slices += 1
        if seconds > self.longest[0]:
            self.longest = (seconds, self._command)
        self._queue.charge(owner, seconds)

    def _end_step(self, now: float) -> None:
        seconds = now - self._step_began
        self._step_began = now
        if seconds > self.longest_step[0]:
            self.longest_step = (seconds, self._command)

    async def pause(self) -> None:
        """End the slice; return when the next slice of the same work begins."""
        self.end_slice()
        waiter = asyncio.get_running_loop().create_future()
        self._queue.add(_owner_of(SUPERVISION.context), waiter)
        self._schedule()
        await waiter
        self.begin_slice()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """Wake the next waiter, unless sockets are ready and long work has had its share."""
        self._scheduled = False
        self.end_slice()
        queue = self._queue
        if not len(queue):
            return
        deferral = MAX_DEFERRAL_SLICES * max(self._last_seconds, STEP_SECONDS)
        if self._is_ready() and self.clock() - self._ended < deferral:
            self.deferrals += 1
        else:
            _, waiter = queue.pop()
            # A cancelled waiter is skipped, in a turn of its own.
            if not waiter.done():
                waiter.set_result(None)
        # Run after the slice, which begins in the next turn of the loop.
        self._schedule()


def _described(longest: tuple[float, str]) -> dict[str, Any]:
    seconds, command = longest
    return {"micros": Int64(seconds * 1e6), "command": command}


def _owner_of(context: Context | None) -> Owner:
    """Return the account of a request; for None that of background work."""
    return BACKGROUND if context is None else Owner(context.owner or "", context.operation.id)
