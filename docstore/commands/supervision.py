"""Watches what a request costs while it is worked on: its time limit, killOp, its memory, and the loop that it holds.

Whatever makes or walks values says what that costs (`docstore.bson.allowance`), so a look comes every 64 KiB of
values, however deep the work is inside of an expression. Where the request may be refused (`docstore.query.pausing`)

* an error ends it when its time is up, when it was killed, and when the process has grown by `MEMORY_BYTES` in it;
* a request that has held the loop for `HELD_SECONDS` and may be begun anew is begun anew on a thread of its own
  (`ScriptsWanted`), and there others run whenever it has worked for `TURN_SECONDS`.

Always true: only the request that is worked on is looked at, and nothing that is between two requests; the clock is not
looked at for a request that makes little.
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
"""Bytes of values between two looks at the memory of the process."""


T = TypeVar("T")


class Supervision:
    """Of the request that is worked on: `context`, None between requests. `until`: when it has had the loop for long
    enough; 0 where that is still to be found out. `heavy`: how many requests have ended that made values of megabytes.
    """

    __slots__ = ("context", "heavy", "until")

    def __init__(self) -> None:
        self.context: Context | None = None
        self.until = 0.0
        self.heavy = 0

    def look(self, spent: int) -> None:
        """Called whenever the request has made or walked so many bytes of values more."""
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
        """The request's work is done."""
        progress = context.begun_progress
        if progress is not None and progress.memory_before is not None:
            self.heavy += 1

    def _measure(self, context: Context, coming: int) -> None:
        """Judge what is in use; of a large value is told before it is there: it is `coming`."""
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
                    # What others have taken meanwhile is theirs.
                    progress.memory_before += services.memory() - before
                self.until = services.clock() + TURN_SECONDS
                if progress.operation is not None:
                    progress.operation.check()
                return
        if progress.apart or not context.command.repeatable or progress.irrevocable or services.carry_out is None:
            return
        if now >= self.until - TURN_SECONDS + HELD_SECONDS:
            progress.apart = True
            raise ScriptsWanted


SUPERVISION = Supervision()


class Supervised(Generic[T]):
    """A request's work that waits: it is the one that is worked on whenever it goes on."""

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
            except BaseException as error:  # it belongs to the work
                thrown = error
