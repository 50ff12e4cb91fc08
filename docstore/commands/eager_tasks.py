"""Coroutines begun at once: one that need not wait is done when the call returns, without a task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Begun(Generic[T]):
    """What is left of a coroutine that has begun to wait. To be awaited, once."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        step: Callable[[Any], Any]
        while True:
            try:
                given = yield waits_for
                step = self._work.send
            except BaseException as error:
                given, step = error, self._work.throw
            try:
                waits_for = step(given)
            except StopIteration as end:
                result: T = end.value
                return result


def begun(work: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """The result of a coroutine that never waits, else what is left of it.

    What it does before it first waits is part of no task: only for work that does not ask for one there.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return Begun(work, waits_for)
