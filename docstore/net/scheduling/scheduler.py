"""The scheduler of a process: which long work has the event loop next, and for how long.

Short requests run as they come, first in, first out. Long work runs in slices: it calls `begin_slice` where it starts,
asks `is_due` between its steps, and awaits `pause` when that says so. A step should take at most `STEP_SECONDS`.

Always true:

* a slice ends after the step in which a socket became ready, or a frame waits (`watch`), else after `SLICE_SECONDS`;
* the next slice begins when no socket is ready any more, so all requests that have come are answered before, however
  many turns of the loop that takes; but long work as a whole has a tenth of the time at least;
* one slice runs between two looks at the sockets, by the order of `docstore.net.scheduling.fair_queue.FairQueue`.

A socket is ready when the loop's epoll descriptor is: one system call of half a microsecond. Where the loop has none
(a simulated one), no socket is ever seen ready, and slices last `SLICE_SECONDS`.
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

if TYPE_CHECKING:
    from docstore.commands.context import Context
    from docstore.net.turn import Turn

STEP_SECONDS = 0.0005
"""How long one step of long work may take: between two steps somebody looks whether others wait. A request that comes
meanwhile waits as long; shorter steps make scans slower (a `$group` by a sixth at half of this).
"""
FIRST_STEP_SECONDS = 0.003
"""How long a request may take that is answered in one step, before it begins anew in steps that pause."""
SLICE_SECONDS = 0.008
"""How long a slice lasts where nobody else wants the loop; timers and flushes must get through."""
_MAX_DEFERRAL = 9.0
"""Long work is put off for so many times the length of its last slice."""


def never_ready() -> bool:
    """Return False: nothing is known about the sockets."""
    return False


def socket_readiness(loop: asyncio.AbstractEventLoop) -> Callable[[], bool]:
    """Return a function that tells whether a socket of `loop` is ready; `never_ready` for a loop that cannot say."""
    # uvloop gives its descriptor itself; asyncio's selectors have one where they are epoll or kqueue.
    descriptor = getattr(loop, "_get_backend_id", None) or getattr(getattr(loop, "_selector", None), "fileno", None)
    if descriptor is None:
        return never_ready
    poll = select.poll()
    poll.register(descriptor(), select.POLLIN)
    look = poll.poll
    return lambda: bool(look(0))


class Scheduler:
    """Gives the loop of a process to its long work. `clock`: monotonic seconds; `is_ready`: see `socket_readiness`.

    `slices`, `seconds`, `background_slices`, `deferrals` count slices, the time that they took, those of background
    work, and how often a slice was put off because a socket was ready. `longest`, `longest_step`: seconds of the
    longest slice, and of the longest step in one, each with the name of the command that had it (empty: background
    work).
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
        # Of the slice that runs: None between slices.
        self._owner: Owner | None = None
        self._command = ""
        self._began = 0.0
        self._step_began = 0.0
        self._next_look = 0.0
        self._ends = 0.0
        # Of the last slice.
        self._ended = 0.0
        self._last_seconds = 0.0

    @property
    def waiting(self) -> int:
        """The number of pieces of long work that wait for a slice."""
        return len(self._queue)

    def watch(self, turn: Turn) -> None:
        """Take frames that `turn` holds for requests that have come."""
        self._turns.append(turn)

    def _is_ready(self) -> bool:
        """Return True where a frame waits or a socket is ready."""
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
        """Begin a slice of the request that is being worked on, or of background work where there is none."""
        context = SUPERVISION.context
        self._owner, self._command = _owner_of(context), "" if context is None else context.command.name
        self._began = self._step_began = began = self.clock()
        self._next_look = began + STEP_SECONDS
        self._ends = began + SLICE_SECONDS

    def is_due(self) -> bool:
        """Return True once the running slice has lasted long enough, or others want the loop; a step ends."""
        now = self.clock()
        self._end_step(now)
        if now < self._next_look:
            return False
        if now >= self._ends or self._is_ready():
            return True
        self._next_look = now + STEP_SECONDS
        return False

    def end_slice(self) -> None:
        """Count the slice that runs, if there is one."""
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
        """End the slice, and return when the next one of the same work begins."""
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
        """Wake who is next, unless sockets are ready and long work has had its share."""
        self._scheduled = False
        self.end_slice()
        queue = self._queue
        if not len(queue):
            return
        if self._is_ready() and self.clock() - self._ended < _MAX_DEFERRAL * max(self._last_seconds, STEP_SECONDS):
            self.deferrals += 1
        else:
            _, waiter = queue.pop()
            # One whose work was cancelled is passed over, in a turn of its own.
            if not waiter.done():
                waiter.set_result(None)
        # Behind the slice, which begins in the next turn of the loop.
        self._schedule()


def _described(longest: tuple[float, str]) -> dict[str, Any]:
    seconds, command = longest
    return {"micros": Int64(seconds * 1e6), "command": command}


def _owner_of(context: Context | None) -> Owner:
    """Return the account of a request; that of background work for None."""
    return BACKGROUND if context is None else Owner(context.owner or "", context.operation.id)
