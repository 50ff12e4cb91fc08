"""Runner of long work in slices, between which the event loop serves other tasks.

Work that may take long or wait is a generator (`Steps`). It yields `PAUSE` to let others run, and awaitables, whose
results are sent back; its return value is its result. The runner needs no task if the work ends in its first slice
without waiting; otherwise it continues as a coroutine. If it first waits for a signal (`docstore.node.signals`), it
still needs no task.

* Between two yields nothing else runs.
* The scheduler decides when a slice is over (`docstore.net.scheduling.scheduler`); a long step checks the clock itself
  (`step_end`).
* An early end (killed, or the awaited operation failed) is raised at the yield. Abandoned work is closed there, and
  releases its resources in `finally`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from docstore.commands.context import Context
from docstore.net.scheduling.scheduler import STEP_SECONDS
from docstore.node.node import DataNode, node_of
from docstore.node.signals import Signal, SignalledRequest

PAUSE = None
"""Yielded to let other tasks run."""

T = TypeVar("T")
Steps = Generator[Awaitable[Any] | None, Any, T]


def step_end(node: DataNode) -> float:
    """Return the end of a step that begins now, on the node's clock."""
    return node.clock() + STEP_SECONDS


def until_done(node: DataNode, step: Callable[[float], bool]) -> Steps[None]:
    """Call `step` with the end of its slice until it returns True."""
    while not step(step_end(node)):
        yield PAUSE


def run_steps(context: Context, steps: Steps[T]) -> T | Awaitable[T]:
    """Return the result of a request's work if one slice is enough, else an awaitable of it."""
    node = node_of(context)
    scheduler = node.scheduler
    try:
        condition = next(steps)
        # Single-step work bypasses the scheduler.
        if condition is None:
            scheduler.begin_slice()
            while condition is None and not scheduler.is_due():
                condition = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        scheduler.end_slice()
    check = context.operation.check
    if isinstance(condition, Signal):
        later: Any = SignalledRequest(context, steps, condition, lambda wanted: _go_on(node, steps, check, wanted))
        awaited: Awaitable[T] = later
        return awaited
    return _go_on(node, steps, check, condition)


def finish_steps(context: Context, steps: Steps[T]) -> Coroutine[Any, Any, T]:
    """Run a part of a request's work within a coroutine; return its result."""
    return _begin(node_of(context), steps, context.operation.check)


def finish_apart(context: Context, steps: Steps[T]) -> Awaitable[T]:
    """Run a part of a request's work on its own thread, where a step may yield midway (`docstore.query.pausing`)."""
    carry_out = context.services.carry_out
    if carry_out is None:
        return finish_steps(context, steps)
    return carry_out(context, lambda: finish_steps(context, steps))


def finish_work(node: DataNode, steps: Steps[T]) -> Coroutine[Any, Any, T]:
    """Run internal work of the node, which cannot be killed; return its result."""
    return _begin(node, steps, lambda: None)


async def _begin(node: DataNode, steps: Steps[T], check: Callable[[], None]) -> T:
    """Run steps from the beginning."""
    node.scheduler.begin_slice()
    try:
        condition = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        node.scheduler.end_slice()
    return await _go_on(node, steps, check, condition)


async def _go_on(node: DataNode, steps: Steps[T], check: Callable[[], None], condition: Awaitable[Any] | None) -> T:
    """Continue steps that have yielded `condition`.

    `check` raises the error that ends the work. It is called after pauses and after waits without a result: a result
    must reach the steps, which release it.
    """
    scheduler = node.scheduler
    try:
        while True:
            try:
                if condition is None:
                    await node.pause()
                    outcome = None
                else:
                    scheduler.end_slice()
                    outcome = await condition
                    scheduler.begin_slice()
                if outcome is None:
                    check()
            except BaseException as error:
                condition = steps.throw(error)
            else:
                condition = steps.send(outcome)
            while condition is None and not scheduler.is_due():
                condition = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        scheduler.end_slice()


class Slices:
    """Time slices of a request whose work is a coroutine; the first begins on construction."""

    def __init__(self, context: Context) -> None:
        self._operation = context.operation
        self._node = node_of(context)
        self._until = step_end(self._node)

    async def pause_when_due(self) -> None:
        """Yield to other tasks if the step is over. Errors: that with which the operation was killed."""
        if self._node.clock() >= self._until:
            await self._node.pause()
            self._operation.check()
            self._until = step_end(self._node)
