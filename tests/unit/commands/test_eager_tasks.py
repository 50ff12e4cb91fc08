"""A coroutine that is begun at once ends as it would have ended in a task."""

from __future__ import annotations

import asyncio

import pytest

from docstore.commands.eager_tasks import StartedCoroutine, start_eagerly


async def at_once(number: int) -> int:
    return number + 1


async def refused() -> int:
    raise ValueError("no")


def test_what_does_not_wait_is_done_at_once() -> None:
    assert start_eagerly(at_once(1)) == 2
    with pytest.raises(ValueError, match="no"):
        start_eagerly(refused())


def test_what_waits_goes_on_where_it_is_awaited() -> None:
    steps: list[str] = []

    async def work(future: asyncio.Future[str]) -> str:
        steps.append("begun")
        await asyncio.sleep(0)
        steps.append("slept")
        try:
            steps.append(await future)
        except KeyError:
            steps.append("failed")
        steps.append(await asyncio.wait_for(asyncio.shield(future), 5) if not future.exception() else "-")
        return "done"

    async def told() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        left = start_eagerly(work(future))
        assert isinstance(left, StartedCoroutine)
        assert steps == ["begun"]
        asyncio.get_running_loop().call_soon(future.set_result, "given")
        assert await left == "done"
        assert steps == ["begun", "slept", "given", "given"]
        steps.clear()
        failing: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        left = start_eagerly(work(failing))
        assert isinstance(left, StartedCoroutine)
        failing.set_exception(KeyError())
        assert await left == "done"
        assert steps == ["begun", "slept", "failed", "-"]

    asyncio.run(asyncio.wait_for(told(), 10))


def test_a_wait_that_is_the_first_thing_is_kept() -> None:
    async def told() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> int:
            return await future

        left = start_eagerly(work())
        assert isinstance(left, StartedCoroutine)
        asyncio.get_running_loop().call_soon(future.set_result, 7)
        assert await left == 7

    asyncio.run(asyncio.wait_for(told(), 10))


def test_it_hears_of_being_cancelled() -> None:
    heard: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            heard.append(True)

    async def told() -> None:
        left = start_eagerly(work())
        assert isinstance(left, StartedCoroutine)

        async def waiting() -> None:
            await left

        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert heard == [True]

    asyncio.run(asyncio.wait_for(told(), 10))
