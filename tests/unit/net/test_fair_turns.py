"""Turns at costly work: those of one key wait for each other, others between them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from docstore.net.access.fair_turns import FairTurns
from tests.harness.serving import run


class Taker:
    """Takes turns that last until they are ended. `taken`: the keys in the order in which they came on."""

    def __init__(self, at_once: int) -> None:
        self.turns = FairTurns(at_once)
        self.taken: list[Hashable] = []
        self.ends: list[asyncio.Event] = []

    async def take(self, key: Hashable) -> None:
        async with self.turns.turn(key):
            end = asyncio.Event()
            self.taken.append(key)
            self.ends.append(end)
            await end.wait()

    async def end_one(self) -> None:
        self.ends.pop(0).set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_keys_are_served_in_rotation() -> None:
    async def scenario() -> None:
        taker = Taker(1)
        tasks = [asyncio.create_task(taker.take(key)) for key in ("a", "a", "a", "a", "b", "c")]
        await settle()
        while taker.ends:
            await taker.end_one()
        assert taker.taken == ["a", "a", "b", "c", "a", "a"]
        await asyncio.gather(*tasks)

    run(scenario())


def test_as_many_as_allowed_go_on_together() -> None:
    async def scenario() -> None:
        taker = Taker(2)
        tasks = [asyncio.create_task(taker.take(number)) for number in range(5)]
        await settle()
        assert taker.taken == [0, 1]
        while taker.ends:
            await taker.end_one()
            assert len(taker.ends) <= 2
        await asyncio.gather(*tasks)

    run(scenario())


def test_who_gives_up_takes_nothing_along() -> None:
    async def scenario() -> None:
        taker = Taker(1)
        first, waiting, given, last = [asyncio.create_task(taker.take(key)) for key in ("a", "b", "c", "d")]
        await settle()
        waiting.cancel()
        await settle()
        # In the same turn of the loop in which it is given its turn.
        taker.ends.pop(0).set()
        await asyncio.sleep(0)
        given.cancel()
        await settle()
        assert taker.taken[-1] == "d"
        await taker.end_one()
        await asyncio.gather(first, last)
        again = asyncio.create_task(taker.take("e"))
        await settle()
        assert taker.taken[-1] == "e"
        await taker.end_one()
        await again

    run(scenario())
