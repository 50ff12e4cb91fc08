"""Drivers of what a shard's primary coordinates: operations that outlive the requests that began them.

Whoever is primary next resumes them from their documents; a client of this one hears that the primary changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from docstore.commands.context import Context
from docstore.errors import Code, CommandError

_LOOK_SECONDS = 0.5
"""The interval between checks that the client's operation was not killed."""

Key = TypeVar("Key")
Outcome = TypeVar("Outcome")
D = TypeVar("D", bound="Driver")


class NoLongerPrimary(Exception):
    """This member is no longer primary: the next one resumes the operation."""


class Driver(Protocol):
    """`finished`: the answer for the client; the driver may set it before its work ends."""

    finished: asyncio.Future[Any]

    async def run(self, *, resumed: bool) -> None:
        """Return when the operation has ended, or when this member is no longer primary."""


class Drivers(Generic[Key, D]):
    """The drivers at work, by key. However one ends, its `finished` is done then."""

    def __init__(self, name: str) -> None:
        """`name`: that of their tasks."""
        self._name = name
        self._running: dict[Key, tuple[D, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[tuple[D, asyncio.Task[None]]]:
        return iter(self._running.values())

    def get(self, key: Key) -> D | None:
        """Return the driver of that key that is at work."""
        return self._running.get(key, (None, None))[0]

    def begin(self, key: Key, driver: D, *, resumed: bool) -> None:
        """Set a driver to work."""
        driver.finished.add_done_callback(lambda future: future.cancelled() or future.exception())
        loop = asyncio.get_running_loop()
        task = loop.create_task(driver.run(resumed=resumed), name=self._name)
        self._running[key] = driver, task

        def ended(done: asyncio.Task[None]) -> None:
            if self._running.get(key, (None, None))[1] is done:
                del self._running[key]
            error = None if done.cancelled() else done.exception()
            if error is not None:
                loop.call_exception_handler({"message": f"{self._name} failed", "exception": error, "task": done})
            if not driver.finished.done():
                driver.finished.set_exception(
                    CommandError(Code.InterruptedDueToReplStateChange, "the coordinator's primary changed or stops")
                    if error is None
                    else CommandError(Code.InternalError, repr(error))
                )

        task.add_done_callback(ended)

    def take_up(self, stored_drivers: Iterable[tuple[Key, D]]) -> None:
        """End what an earlier term began; resume what is `stored_drivers` on disk."""
        for _, task in self._running.values():
            task.cancel()
        self._running.clear()
        for key, driver in stored_drivers:
            self.begin(key, driver, resumed=True)

    async def stop(self) -> None:
        """Stop all work; it resumes from the documents."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def outcome_of(context: Context, finished: asyncio.Future[Outcome]) -> Outcome:
    """Return the outcome of a driver once it has finished. Errors: the driver's own; MaxTimeMSExpired and those of
    killOp end only the waiting, and the driver continues.
    """
    clock = context.services.clock
    while not finished.done():
        check_deadline(context)
        context.operation.check()
        timeout = _LOOK_SECONDS if context.deadline is None else min(context.deadline - clock(), _LOOK_SECONDS)
        await asyncio.wait([finished], timeout=timeout)
    return finished.result()


def check_deadline(context: Context) -> None:
    """Raise MaxTimeMSExpired once the time of the request is over."""
    if context.deadline is not None and context.services.clock() >= context.deadline:
        raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
