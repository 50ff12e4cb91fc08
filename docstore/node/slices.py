"""Long work in slices: after each of them the loop serves others.

Work that may take long, or may have to wait, is a generator (`Steps`). It yields `PAUSE` where others may run, and what
it must wait for, whose result it is given; its own result is what it returns. One runner drives it: at once, without a
task or a coroutine, where it ends in its first slice and waits for nothing, and as a coroutine from there on; where it
waits for a signal (`docstore.node.signals`) first of all, without a task still.

Always true:

* between two yields nothing else runs;
* one slice holds the loop for about `SLICE_SECONDS`; a step that takes long looks at the clock itself (`slice_end`);
* whatever ends the work early (it was killed, what it waited for failed) is raised at the yield where it stands, and
  work that nobody goes on with is closed there: what it holds it releases in `finally`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from docstore.commands.context import Context
from docstore.node.node import DataNode, node_of
from docstore.node.signals import Signal, SignalledRequest

SLICE_SECONDS = 0.008
"""How long one step of a long command may hold the loop; heartbeats must get through."""

PAUSE = None
"""Yielded where others may run."""

T = TypeVar("T")
Steps = Generator[Awaitable[Any] | None, Any, T]


def slice_end(node: DataNode) -> float:
    """When a slice that begins now ends, on the node's clock."""
    return node.clock() + SLICE_SECONDS


def until_done(node: DataNode, step: Callable[[float], bool]) -> Steps[None]:
    """Repeat a step, which is given the end of its slice, until it says that all is done."""
    while not step(slice_end(node)):
        yield PAUSE


def run_steps(context: Context, steps: Steps[T]) -> T | Awaitable[T]:
    """The result of a request's work where one slice is enough, else what to await for it."""
    node = node_of(context)
    clock = node.clock
    until = clock() + SLICE_SECONDS
    try:
        wanted = next(steps)
        while wanted is None and clock() < until:
            wanted = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    check = context.operation.check
    if isinstance(wanted, Signal):
        later: Any = SignalledRequest(context, steps, wanted, lambda wanted: _go_on(node, steps, check, wanted, 0.0))
        awaited: Awaitable[T] = later
        return awaited
    return _go_on(node, steps, check, wanted, until)


def finish_steps(context: Context, steps: Steps[T]) -> Coroutine[Any, Any, T]:
    """The result of a part of a request's work, where the rest is a coroutine anyway."""
    node = node_of(context)
    return _go_on(node, steps, context.operation.check, None, slice_end(node))


def finish_work(node: DataNode, steps: Steps[T]) -> Coroutine[Any, Any, T]:
    """The result of work of the node itself, which nobody can kill."""
    return _go_on(node, steps, lambda: None, None, slice_end(node))


async def _go_on(
    node: DataNode, steps: Steps[T], check: Callable[[], None], wanted: Awaitable[Any] | None, until: float
) -> T:
    """Go on with steps that have yielded `wanted`, in a slice that lasts to `until`.

    `check` raises what is to end the work. It is asked after a pause and after what gave nothing: a result that was
    waited for must reach the steps, which release it.
    """
    try:
        while True:
            while wanted is None and node.clock() < until:
                wanted = next(steps)
            try:
                given = await (node.pause() if wanted is None else wanted)
                if given is None:
                    check()
            except BaseException as error:
                wanted = steps.throw(error)
            else:
                until = node.clock() + SLICE_SECONDS
                wanted = steps.send(given)
    except StopIteration as end:
        result: T = end.value
        return result


class Slices:
    """The slices of a request whose work is a coroutine; the first begins now."""

    def __init__(self, context: Context) -> None:
        self._operation = context.operation
        self._node = node_of(context)
        self._until = slice_end(self._node)

    async def pause_when_due(self) -> None:
        """Let others run when the slice is over. Errors: that with which the operation was killed."""
        if self._node.clock() >= self._until:
            await self._node.pause()
            self._operation.check()
            self._until = slice_end(self._node)
