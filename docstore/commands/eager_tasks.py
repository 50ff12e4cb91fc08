"""Eagerly started coroutines: one that does not wait completes in the call, without a task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class StartedCoroutine(Generic[T]):
    """The remainder of a coroutine that has begun to wait. Await it once."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        step: Callable[[Any], Any]
        while True:
            try:
                outcome = yield waits_for
                step = self._work.send
            except BaseException as error:
                outcome, step = error, self._work.throw
            try:
                waits_for = step(outcome)
            except StopIteration as end:
                result: T = end.value
                return result


def start_eagerly(work: Coroutine[Any, Any, T]) -> T | StartedCoroutine[T]:
    """Return the result of a coroutine that never waits, else an awaitable of the remainder.

    The part before its first wait runs in no task: it must not ask for the current task.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return StartedCoroutine(work, waits_for)
