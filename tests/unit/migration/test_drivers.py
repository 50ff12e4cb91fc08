"""However a driver ends, those who wait for what it finishes with hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from docstore.errors import Code, CommandError
from mongod.drivers import Drivers


class Work:
    """A driver that does what it is made with."""

    def __init__(self, doing: Callable[[Work], Awaitable[None]]) -> None:
        self.finished: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._doing = doing

    async def run(self, *, resumed: bool) -> None:
        await self._doing(self)


async def waits(_work: Work) -> None:
    await asyncio.get_running_loop().create_future()


async def ends(_work: Work) -> None:
    return


async def fails(_work: Work) -> None:
    raise AssertionError("impossible")


async def answers(work: Work) -> None:
    work.finished.set_result(1)
    await waits(work)


async def ended(drivers: Drivers[str, Work], work: Work) -> CommandError:
    with pytest.raises(CommandError) as error:
        await asyncio.wait_for(work.finished, 5)
    assert len(drivers) == 0
    return error.value


@pytest.mark.parametrize("steps", [0, 1])
def test_one_that_a_new_term_ends_says_so_even_before_its_first_step(steps: int) -> None:
    async def run() -> None:
        drivers: Drivers[str, Work] = Drivers("work")
        work = Work(waits)
        drivers.begin("a", work, resumed=False)
        for _ in range(steps):
            await asyncio.sleep(0)
        drivers.take_up([])
        assert (await ended(drivers, work)).code == Code.InterruptedDueToReplStateChange

    asyncio.run(run())


def test_one_that_fails_or_stops_before_it_answers_says_so() -> None:
    async def run() -> None:
        drivers: Drivers[str, Work] = Drivers("work")
        heard: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, about: heard.append(about["exception"]))
        for doing, code in ((ends, Code.InterruptedDueToReplStateChange), (fails, Code.InternalError)):
            work = Work(doing)
            drivers.begin("a", work, resumed=False)
            assert (await ended(drivers, work)).code == code
        assert [str(error) for error in heard] == ["impossible"]

    asyncio.run(run())


def test_one_that_has_answered_goes_on_until_it_is_taken_up_anew() -> None:
    async def run() -> None:
        drivers: Drivers[str, Work] = Drivers("work")
        first, second = Work(answers), Work(answers)
        drivers.begin("a", first, resumed=False)
        assert await first.finished == 1
        drivers.take_up([("a", second)])
        assert await second.finished == 1
        assert drivers.get("a") is second
        await drivers.stop()
        assert len(drivers) == 0

    asyncio.run(run())
