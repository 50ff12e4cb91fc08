"""Long work in slices: after each of them the loop serves others.

Work that may take long, or may have to wait, is a generator (`Steps`). It yields `PAUSE` where others may run, and what
it must wait for, whose result it is given; its own result is what it returns. One runner drives it: at once, without a
task or a coroutine, where it ends in its first slice and waits for nothing, and as a coroutine from there on; where it
waits for a signal (`docstore.node.signals`) first of all, without a task still.

Always true:

* between two yields nothing else runs;
* the scheduler of the process says when a slice is over (`docstore.net.scheduling.scheduler`); a step that takes long
  looks at the clock itself (`step_end`);
* whatever ends the work early (it was killed, what it waited for failed) is raised at the yield where it stands, and
  work that nobody goes on with is closed there: what it holds it releases in `finally`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from docstore.commands.context import Context
from docstore.net.scheduling.scheduler import STEP_SECONDS
from docstore.node.node import DataNode, node_of
from docstore.node.signals import Signal, SignalledRequest

PAUSE = None
"""Yielded where others may run."""

T = TypeVar("T")
Steps = Generator[Awaitable[Any] | None, Any, T]


def step_end(node: DataNode) -> float:
    """Return when a step that begins now ends, on the node's clock."""
    return node.clock() + STEP_SECONDS


def until_done(node: DataNode, step: Callable[[float], bool]) -> Steps[None]:
    """Repeat a step, which is given the end of its slice, until it says that all is done."""
    while not step(step_end(node)):
        yield PAUSE


def run_steps(context: Context, steps: Steps[T]) -> T | Awaitable[T]:
    """Return the result of a request's work where one slice is enough, else what to await for it."""
    node = node_of(context)
    scheduler = node.scheduler
    try:
        condition = next(steps)
        # Work of a single step costs the scheduler nothing.
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
    """The result of a part of a request's work, where the rest is a coroutine anyway."""
    return _begin(node_of(context), steps, context.operation.check)


def finish_apart(context: Context, steps: Steps[T]) -> Awaitable[T]:
    """As `finish_steps`, on a thread of its own: a step may pause in the middle (`docstore.query.pausing`)."""
    carry_out = context.services.carry_out
    if carry_out is None:
        return finish_steps(context, steps)
    return carry_out(context, lambda: finish_steps(context, steps))


def finish_work(node: DataNode, steps: Steps[T]) -> Coroutine[Any, Any, T]:
    """The result of work of the node itself, which nobody can kill."""
    return _begin(node, steps, lambda: None)


async def _begin(node: DataNode, steps: Steps[T], check: Callable[[], None]) -> T:
    """Run steps of which none has been run yet."""
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
    """Go on with steps that have yielded `condition`.

    `check` raises what is to end the work. It is asked after a pause and after what gave nothing: a result that was
    waited for must reach the steps, which release it.
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
    """The steps of a request whose work is a coroutine; the first begins now."""

    def __init__(self, context: Context) -> None:
        self._operation = context.operation
        self._node = node_of(context)
        self._until = step_end(self._node)

    async def pause_when_due(self) -> None:
        """Let others run when the step is over. Errors: that with which the operation was killed."""
        if self._node.clock() >= self._until:
            await self._node.pause()
            self._operation.check()
            self._until = step_end(self._node)
