"""Carrying out work that is done in steps: at once where one slice is enough, else with pauses between slices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from docstore.commands.context import Context
from docstore.node.node import node_of
from docstore.node.read.cursors import SLICE_SECONDS
from docstore.widecolumn.model.slices import Steps

T = TypeVar("T")


def driven(context: Context, steps: Steps[T], release: Callable[[], None]) -> T | Awaitable[T]:
    """Carry steps out: at once where one slice is enough. `release` is called at the end, whatever it is."""
    clock = node_of(context).clock
    until = clock() + SLICE_SECONDS
    try:
        while True:
            next(steps)
            if clock() >= until:
                break
    except StopIteration as end:
        release()
        result: T = end.value
        return result
    except BaseException:
        release()
        raise
    return _driven_on(context, steps, release)


async def _driven_on(context: Context, steps: Steps[T], release: Callable[[], None]) -> T:
    node = node_of(context)
    try:
        while True:
            await node.pause()
            context.operation.check()
            until = node.clock() + SLICE_SECONDS
            while node.clock() < until:
                next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        release()
