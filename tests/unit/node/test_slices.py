"""Work in steps: done at once where one slice is enough, else gone on with between pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.net.scheduling.scheduler import STEP_SECONDS, Scheduler
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.slices import PAUSE, Steps, finish_steps, run_steps, until_done
from docstore.wire.message import Message
from tests.unit.node.local import LocalNode, loop

KILLED = CommandError(Code.Interrupted, "killed")


class Request:
    """A request of a node whose clock the test moves: one look costs `tick` seconds."""

    def __init__(self, tick: float, local: LocalNode | None = None) -> None:
        self.now = 0.0
        self.pauses = 0
        self.error: CommandError | None = None
        made = local or LocalNode()
        self.node = made.node
        if local is None:
            self.node.clock = self._clock
            self.node.scheduler = Scheduler(self._clock)
            self._wait = self.node.scheduler.pause
            self.node.scheduler.pause = self._pause  # type: ignore[method-assign]
        command = made.services.table.get("ping")
        self.context = Context(command, Message(1, 0, bson.encode({"ping": 1}), {}), made.peer, made.services, 0.0, {})
        operation: Any = SimpleNamespace(check=self._check)
        self.context.progress.operation = operation
        self._tick = tick

    def _clock(self) -> float:
        self.now += self._tick
        return self.now

    async def _pause(self) -> None:
        self.pauses += 1
        await self._wait()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def counted(count: int, ended: list[str]) -> Steps[int]:
    try:
        for _ in range(count):
            yield PAUSE
        return count
    finally:
        ended.append("released")


def test_work_of_one_slice_is_done_at_once() -> None:
    """No loop runs here: nothing could be awaited."""
    request, ended = Request(0), list[str]()
    assert run_steps(request.context, counted(1000, ended)) == 1000
    assert (request.pauses, ended) == (0, ["released"])


def test_an_error_in_the_first_slice_is_raised_at_once() -> None:
    def failing() -> Steps[int]:
        yield PAUSE
        raise KILLED

    with pytest.raises(CommandError):
        run_steps(Request(0).context, failing())


def test_longer_work_pauses_after_each_slice() -> None:
    async def work() -> None:
        request = Request(0.001)
        rest: Any = run_steps(request.context, counted(100, []))
        assert request.pauses == 0
        assert await rest == 100
        assert 10 <= request.pauses <= 20

    loop(work())


def test_steps_are_given_what_they_wait_for() -> None:
    def waiting(order: list[str]) -> Steps[str]:
        order.append("begun")
        found: str = yield asyncio.sleep(0, "found")
        return found

    async def work() -> None:
        order: list[str] = []
        rest: Any = run_steps(Request(0).context, waiting(order))
        assert order == ["begun"]
        assert await rest == "found"
        assert await finish_steps(Request(0).context, waiting(order)) == "found"

    loop(work())


def test_a_killed_request_releases_what_its_steps_hold() -> None:
    async def work() -> None:
        request, ended = Request(0.001), list[str]()
        rest: Any = run_steps(request.context, counted(1_000_000, ended))
        request.error = KILLED
        with pytest.raises(CommandError):
            await rest
        assert (request.pauses, ended) == (1, ["released"])

    loop(work())


def test_cancelled_work_releases_what_its_steps_hold() -> None:
    async def work() -> None:
        ended: list[str] = []
        rest: Any = run_steps(Request(0.001).context, counted(1_000_000, ended))
        task = asyncio.ensure_future(rest)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["released"]

    loop(work())


def test_work_that_nobody_goes_on_with_is_closed() -> None:
    ended: list[str] = []
    rest: Any = run_steps(Request(0.001).context, counted(1_000_000, ended))
    assert ended == []
    rest.close()
    del rest
    assert ended == ["released"]


def test_a_result_that_was_waited_for_reaches_the_steps_of_a_killed_request() -> None:
    """They hold it from then on, and release it."""
    held: list[str] = []

    def waiting() -> Steps[None]:
        taken: str = yield asyncio.sleep(0, "state")
        held.append(taken)
        try:
            yield asyncio.sleep(0)
        finally:
            held.remove(taken)

    async def work() -> None:
        request = Request(0)
        rest: Any = run_steps(request.context, waiting())
        request.error = KILLED
        with pytest.raises(CommandError):
            await rest
        assert held == []

    loop(work())


def test_a_step_is_told_when_it_ends() -> None:
    request, ends = Request(0), list[float]()

    def step(until: float) -> bool:
        ends.append(until)
        request.now = until
        return len(ends) == 3

    async def work() -> None:
        await finish_steps(request.context, until_done(request.node, step))
        assert ends == pytest.approx([STEP_SECONDS, 2 * STEP_SECONDS, 3 * STEP_SECONDS])
        assert request.pauses == 1, "where nobody else wants the loop, a slice has several steps"

    loop(work())


def test_a_write_enters_anew_after_every_pause() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        node.hurry()
        replication: Any = node.replication
        slices: list[float] = []

        def write(_owned: object, until: float) -> bool:
            slices.append(until)
            if len(slices) == 3:
                replication.primary = False
            while node.node.clock() < until:
                pass
            return False

        with pytest.raises(CommandError) as refused:
            await finish(node, lambda: write_in_slices(node.node, "test.c", Repeated(write)))
        assert refused.value.code == Code.InterruptedDueToReplStateChange
        assert len(slices) == 3
        with pytest.raises(CommandError) as refused:
            await finish(node, lambda: write_in_slices(node.node, "test.c", Repeated(write)))
        assert refused.value.code == Code.NotWritablePrimary, "nothing has been done"
        assert len(slices) == 3

    loop(work())


def test_a_write_waits_while_writes_are_locked_out() -> None:
    async def work() -> None:
        node = LocalNode()
        lock = node.node.store.write_lock
        lock.take()
        written: list[bool] = []

        def write(_owned: object, _until: float) -> bool:
            assert not lock.is_held
            written.append(True)
            return True

        writing = asyncio.ensure_future(finish(node, lambda: write_in_slices(node.node, "test.c", Repeated(write))))
        await asyncio.sleep(0.01)
        assert not written
        lock.release()
        await writing
        assert written

    loop(work())


async def finish(node: LocalNode, make: Callable[[], Steps[None]]) -> None:
    await finish_steps(Request(0, node).context, make())
