"""The group flush: one at a time, started after who waits for it, fatal when it fails."""

from __future__ import annotations

import asyncio
import threading

import pytest

from docstore.optime import OpTime
from docstore.replicaset.flusher import GroupFlusher
from tests.harness.serving import run, until


class Disk:
    """A flush that the test lets finish."""

    def __init__(self) -> None:
        self.started = 0
        self.failure: OSError | None = None
        self._gate = threading.Semaphore(0)

    def __call__(self) -> None:
        self.started += 1
        assert self._gate.acquire(timeout=10)
        if self.failure is not None:
            raise self.failure

    def finish(self, flushes: int = 1) -> None:
        self._gate.release(flushes)


def at(timestamp: int) -> OpTime:
    return OpTime(1, timestamp)


def test_who_asks_during_a_flush_waits_for_the_next_one() -> None:
    async def scenario() -> None:
        disk = Disk()
        flusher = GroupFlusher(disk)
        first = flusher.wait_flushed()
        await until(lambda: disk.started == 1)
        second, third = flusher.wait_flushed(), flusher.wait_flushed()
        disk.finish()
        await first
        assert not second.done()
        disk.finish()
        await asyncio.gather(second, third)
        assert disk.started == flusher.flushes == 2
        disk.finish()
        await flusher.stop()

    run(scenario())


def test_durable_is_the_position_from_before_the_flush_began() -> None:
    async def scenario() -> None:
        disk, position, heard = Disk(), [at(1)], list[OpTime]()
        flusher = GroupFlusher(disk, position=lambda: position[0])
        flusher.subscribe(heard.append)
        waiting = flusher.wait_flushed()
        await until(lambda: disk.started == 1)
        position[0] = at(2)
        disk.finish()
        await waiting
        assert flusher.durable == at(1)
        assert heard == [at(1)]
        disk.finish()
        await flusher.stop()
        assert flusher.durable == at(2)

    run(scenario())


def test_a_flush_that_began_before_a_rollback_makes_nothing_durable() -> None:
    async def scenario() -> None:
        disk, position = Disk(), [at(9)]
        flusher = GroupFlusher(disk, position=lambda: position[0])
        waiting = flusher.wait_flushed()
        await until(lambda: disk.started == 1)
        position[0] = at(3)
        flusher.rewind(at(3))
        disk.finish()
        await waiting
        assert flusher.durable < at(3)
        disk.finish()
        await flusher.stop()
        assert flusher.durable == at(3)

    run(scenario())


def test_what_was_touched_is_flushed_without_anybody_waiting() -> None:
    async def scenario() -> None:
        disk = Disk()
        flusher = GroupFlusher(disk, interval=0.01)
        flusher.touched()
        flusher.touched()
        await until(lambda: disk.started == 1)
        disk.finish(2)
        await flusher.stop()
        assert disk.started == 2

    run(scenario())


def test_what_was_touched_is_flushed_at_once_where_somebody_waits_for_its_commit() -> None:
    async def scenario() -> None:
        disk = Disk()
        flusher = GroupFlusher(disk, interval=60.0)
        flusher.touched()
        flusher.touched(soon=True)
        await until(lambda: disk.started == 1)
        flusher.touched(soon=True)
        disk.finish()
        await until(lambda: disk.started == 2)
        disk.finish(2)
        await flusher.stop()

    run(scenario())


def test_what_was_touched_during_a_long_flush_is_flushed_after_it() -> None:
    """Its time comes while the disk is still busy with what was written before."""

    async def scenario() -> None:
        disk, position = Disk(), [at(1)]
        flusher = GroupFlusher(disk, position=lambda: position[0], interval=0.0)
        flusher.touched()
        await until(lambda: disk.started == 1)
        position[0] = at(2)
        flusher.touched()
        await until(lambda: flusher._timer is None)
        disk.finish()
        await until(lambda: disk.started == 2)
        disk.finish()
        await until(lambda: flusher.durable == at(2))
        disk.finish()
        await flusher.stop()

    run(scenario())


def test_a_failed_flush_is_told_to_all_who_wait_then_and_later_and_to_the_process() -> None:
    async def scenario() -> None:
        disk, heard = Disk(), list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(context["exception"]))
        disk.failure = OSError(5, "Input/output error")
        flusher = GroupFlusher(disk)
        waiting = flusher.wait_flushed()
        disk.finish()
        with pytest.raises(OSError, match="Input/output"):
            await waiting
        with pytest.raises(OSError, match="Input/output"):
            await flusher.wait_flushed()
        await flusher.stop()
        assert [type(error) for error in heard] == [AssertionError]

    run(scenario())


def test_it_is_idle_where_all_that_was_announced_is_on_disk() -> None:
    async def scenario() -> None:
        disk = Disk()
        flusher = GroupFlusher(disk)
        assert flusher.is_idle
        flusher.touched()
        assert not flusher.is_idle
        waiter = flusher.wait_flushed()
        await until(lambda: disk.started == 1)
        flusher.touched()
        disk.finish(3)
        await waiter
        await until(lambda: flusher.is_idle)
        assert disk.started == 2
        await flusher.stop()

    run(scenario())
