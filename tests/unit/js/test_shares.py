"""Fair shares of the workers: an owner that holds on to all it has keeps nobody else waiting."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from docstore.js.shares import FairShares


class Owners:
    """Tasks of owners that hold slots until they are told to end."""

    def __init__(self, size: int) -> None:
        self.shares = FairShares(size)
        self.running: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, owner: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._hold(owner))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def _hold(self, owner: str) -> None:
        async with self.shares.slot(owner):
            entry = (owner, asyncio.Event())
            self.running.append(entry)
            try:
                await entry[1].wait()
            finally:
                self.running.remove(entry)

    async def end(self, owner: str) -> None:
        next(event for name, event in self.running if name == owner).set()
        for _ in range(4):
            await asyncio.sleep(0)

    @property
    def holding(self) -> str:
        return "".join(owner for owner, _ in self.running)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def test_who_holds_nothing_waits_for_nobody() -> None:
    async def work() -> None:
        owners = Owners(3)
        for owner in "aaaaabbc":
            await owners.ask(owner)
        assert owners.holding == "aaabc"
        await owners.end("a")
        assert owners.holding == "aabc"
        await owners.end("a")
        await owners.end("c")
        assert sorted(owners.holding) == ["a", "a", "b"]
        await owners.close()

    asyncio.run(work())


def test_one_owner_alone_has_all_slots_and_no_more() -> None:
    async def work() -> None:
        owners = Owners(4)
        for _ in range(9):
            await owners.ask("a")
        assert owners.holding == "aaaa"
        await owners.end("a")
        assert owners.holding == "aaaa"
        await owners.close()

    asyncio.run(work())


@pytest.mark.parametrize("seed", range(20))
def test_no_slot_is_lost_or_given_twice(seed: int) -> None:
    async def work() -> None:
        rng = Random(seed)
        owners = Owners(2)
        for _ in range(60):
            kind = rng.random()
            if kind < 0.6:
                await owners.ask(rng.choice("abcd"))
            elif kind < 0.8 and owners.running:
                await owners.end(rng.choice(owners.running)[0])
            elif owners.tasks:
                rng.choice(owners.tasks).cancel()
                await asyncio.sleep(0)
            assert len(owners.running) <= 4
        await owners.close()
        async with AsyncExitStack() as stack:
            for _ in range(2):
                async with asyncio.timeout(1):
                    await stack.enter_async_context(owners.shares.slot("a"))

    asyncio.run(work())
