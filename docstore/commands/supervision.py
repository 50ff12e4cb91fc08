"""Supervision of a running request: its time limit, killOp, its memory, and its use of the event loop.

Code that creates or walks values charges their cost (`docstore.bson.allowance`), so a check runs every 64 KiB of
values, also deep inside an expression. Where the request may be interrupted (`docstore.query.pausing`):

* It fails when its time is up, when it was killed, and when the process has grown by `MEMORY_BYTES` during it.
* A request that has held the loop for `HELD_SECONDS` restarts on its own thread (`ScriptsWanted`), if it is repeatable
  or the caller of the evaluation can start again (`OVERTAKEN`). There it yields to other tasks after every
  `TURN_SECONDS`.

Only the running request is checked, and nothing between two requests. A request that creates few values never reads the
clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from docstore.errors import Code, CommandError
from docstore.query.pausing import PAUSED, PAUSING
from docstore.query.scripts import ScriptsWanted

if TYPE_CHECKING:
    from docstore.commands.context import Context

HELD_SECONDS = 0.005
TURN_SECONDS = 0.002
MEMORY_BYTES = 256 * 1024 * 1024
_MEASURED_EVERY = 4 * 1024 * 1024
"""Bytes of values between two measurements of the process's memory."""


T = TypeVar("T")


class Supervision:
    """The supervision of the running request: `context`, None between requests.

    `until`: when the request has held the loop long enough; 0: not set yet. `heavy`: the number of ended requests that
    created megabytes of values.
    """

    __slots__ = ("context", "heavy", "until")

    def __init__(self) -> None:
        self.context: Context | None = None
        self.until = 0.0
        self.heavy = 0

    def look(self, spent: int) -> None:
        """Check the request after another `spent` bytes of values."""
        context = self.context
        if context is None or not PAUSING.level:
            return
        services, progress = context.services, context.progress
        now = services.clock()
        deadline = progress.deadline if context.command.own_deadline else context.deadline
        if deadline is not None and now >= deadline:
            raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
        if progress.operation is not None:
            progress.operation.check()
        progress.unmeasured += spent
        if progress.unmeasured >= _MEASURED_EVERY:
            progress.unmeasured = 0
            self._measure(context, spent if spent >= _MEASURED_EVERY else 0)
        if not self.until:
            self.until = now + TURN_SECONDS
        elif now >= self.until:
            self._make_way(context, now)

    def ended(self, context: Context) -> None:
        """Count a request at its end."""
        progress = context.begun_progress
        if progress is not None and progress.memory_before is not None:
            self.heavy += 1

    def _measure(self, context: Context, coming: int) -> None:
        """Check the memory in use; `coming`: the bytes of a large value about to be created."""
        in_use, progress = context.services.memory(), context.progress
        if progress.memory_before is None:
            progress.memory_before = in_use
        if in_use + coming - progress.memory_before > MEMORY_BYTES:
            raise CommandError(
                Code.ExceededMemoryLimit,
                "the values of an expression use too much memory and cannot spill to disk. Memory limit:"
                f" {MEMORY_BYTES} bytes",
            )

    def _make_way(self, context: Context, now: float) -> None:
        services, progress = context.services, context.progress
        pausable = PAUSING.level > PAUSED or (PAUSING.level == PAUSED and context.command.pausable)
        if pausable and services.supervised_pause is not None:
            before = services.memory()
            if services.supervised_pause():
                if progress.memory_before is not None:
                    # Discount the memory that other requests took meanwhile.
                    progress.memory_before += services.memory() - before
                self.until = services.clock() + TURN_SECONDS
                if progress.operation is not None:
                    progress.operation.check()
                return
        can_restart = context.command.repeatable or PAUSING.level > PAUSED
        if progress.apart or not can_restart or progress.irrevocable or services.carry_out is None:
            return
        if now >= self.until - TURN_SECONDS + HELD_SECONDS:
            progress.apart = True
            raise ScriptsWanted


SUPERVISION = Supervision()


class Supervised(Generic[T]):
    """Awaitable work of a request, supervised whenever it runs."""

    __slots__ = ("_awaitable", "_context")

    def __init__(self, context: Context, awaitable: Awaitable[T]) -> None:
        self._context = context
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaitable.__await__()
        thrown: BaseException | None = None
        level = 0
        while True:
            SUPERVISION.context, SUPERVISION.until, PAUSING.level = self._context, 0.0, level
            try:
                yielded = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                SUPERVISION.context, level, PAUSING.level = None, PAUSING.level, 0
            thrown = None
            try:
                yield yielded
            except BaseException as error:  # raised in the work
                thrown = error
