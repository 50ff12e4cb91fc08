"""Requests that wait for a signal: a callback continues them, without a task per waiting request.

* A signal calls back once, in a step of its own, or never if cancelled before.
* A request that waits only for signals continues in the step of the callback. From its first other wait on, it is a
  task.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from docstore.commands.operations.relay import Answered, Relay
from docstore.commands.supervision import SUPERVISION
from docstore.query.pausing import PAUSING

if TYPE_CHECKING:
    from docstore.commands.context import Context
    from docstore.commands.declaration import Result


class Signal(Awaitable[None]):
    """An event that happens once; also awaitable."""

    @abstractmethod
    def tell(self, happened: Callable[[], None]) -> None:
        """Call `happened` when the event occurs."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the callback; idempotent."""

    def __await__(self) -> Generator[Any, Any, None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tell(lambda: None if future.done() else future.set_result(None))
        try:
            yield from future
        finally:
            self.cancel()


Steps = Generator[Awaitable[Any] | None, Any, Any]
GoOn = Callable[[Awaitable[Any] | None], Awaitable[Any]]
"""Returns an awaitable for the rest of the steps, given the value that they have yielded."""


class SignalledRequest(Relay):
    """The rest of a request's work, which waits for `signal`."""

    __slots__ = ("_answered", "_context", "_error", "_go_on", "_signal", "_steps", "_wanted")

    def __init__(self, context: Context, steps: Steps, signal: Signal, go_on: GoOn) -> None:
        self._context = context
        self._steps = steps
        self._signal = signal
        self._go_on = go_on
        self._wanted: Awaitable[Any] | None = signal
        self._answered: Answered | None = None
        self._error: BaseException | None = None

    def start(self, answered: Answered) -> bool:
        self._answered = answered
        self._signal.tell(self._happened)
        return True

    def cancel(self) -> None:
        self._answered = None
        self._signal.cancel()
        self._steps.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        result: Result = yield from self._go_on(self._wanted).__await__()
        return result

    def _happened(self) -> None:
        """Continue up to the next wait."""
        answered = self._answered
        assert answered is not None, "what was cancelled is not told"
        SUPERVISION.context, SUPERVISION.until = self._context, 0.0
        result: Any = None
        try:
            awaitable = next(self._steps)
            if isinstance(awaitable, Signal):
                self._signal = awaitable
                awaitable.tell(self._happened)
                return
            self._wanted = awaitable
        except StopIteration as end:
            result = end.value
        except BaseException as error:
            self._error = error
        finally:
            SUPERVISION.context, PAUSING.level = None, 0
        self._answered = None
        answered(result)
