"""The driver does what the core says in order, and lets nothing out before what it depends on is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from docstore.collection.store import Store
from docstore.net.errors import NetworkError
from docstore.net.pool import Pool
from docstore.replicaset.driver import Driver
from docstore.replicaset.local_state import LocalState
from docstore.replication.config import ReplicaSetConfig
from docstore.replication.core import Core
from docstore.replication.effects import (
    BecomePrimary,
    Drain,
    Effect,
    EffectQueue,
    Follow,
    Persist,
    Reply,
    Send,
    SteppedDown,
)
from docstore.replication.messages import LastVote, Progress, StepUpRequest
from docstore.storage import open_engine
from tests.unit.replication.members import op

VOTE = LastVote(term=3, candidate=1)
EVENT = Progress(applied=op(1, 1), durable=op(1, 1))
SEND = Send(to="b:1", request=StepUpRequest(), timeout=1.0)


class ScriptedCore:
    """Answers each event with the next of some lists."""

    def __init__(self, *scripts: list[Effect]) -> None:
        self.scripts = list(scripts)

    def receive(self, event: Any, now: float) -> list[Effect]:
        return self.scripts.pop(0) if self.scripts else []

    def next_wakeup(self) -> float:
        return float("inf")

    def check(self) -> None: ...


class World:
    """A driver, and what it has done so far, in order; the disk is as slow as the test wants."""

    def __init__(self, *scripts: list[Effect]) -> None:
        self.done: list[Any] = []
        self.on_disk = asyncio.Event()
        self.flushed: list[LastVote] = []
        self.local = LocalState(Store(open_engine("inMemory", ""), clock=lambda: 0.0))
        core, pool = cast(Core, ScriptedCore(*scripts)), cast(Pool, self)
        self.driver = Driver(core, self, self.local, pool, flush=self.flush)

    async def flush(self) -> None:
        self.flushed.append(self.local.vote)
        await self.on_disk.wait()
        self.on_disk.clear()

    async def command(self, to: str, *args: Any, **options: Any) -> bytes:
        self.done.append(("sent", to))
        raise NetworkError(to, "nobody is there", sent=False)

    def follow(self, source: str | None) -> None:
        self.done.append(("follow", source))

    def drain(self, term: int) -> None:
        self.done.append(("drain", term))

    def become_primary(self, term: int) -> None:
        self.done.append(("become primary", term))

    def stepped_down(self, term: int, reason: str) -> None:
        self.done.append(("stepped down", term))

    def after(self) -> None: ...

    async def find_own_hosts(self, config: ReplicaSetConfig) -> None: ...


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def turns() -> None:
    """Time enough for everything that may happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_nothing_leaves_before_what_it_depends_on_is_on_disk() -> None:
    async def test() -> None:
        world = World([Follow(source="a:1"), Persist(vote=VOTE), SEND, Reply(token=1, result="granted")], [SEND])
        asked = asyncio.ensure_future(_ask(world))
        await turns()
        world.driver.deliver(EVENT)
        await turns()
        assert world.local.vote == VOTE
        assert world.done == [("follow", "a:1")], "what comes before the Persist, and nothing behind it"
        assert not asked.done()
        world.on_disk.set()
        assert await asked == "granted"
        await turns()
        assert world.done == [("follow", "a:1"), ("sent", "b:1"), ("sent", "b:1")]
        await world.driver.close()

    run(test)


def test_each_persist_waits_for_a_flush_of_its_own() -> None:
    async def test() -> None:
        second = LastVote(term=4, candidate=1)
        world = World([Persist(vote=VOTE), Persist(vote=second), SEND])
        world.driver.deliver(EVENT)
        await turns()
        assert world.flushed == [VOTE]
        world.on_disk.set()
        await turns()
        assert world.flushed == [VOTE, second]
        assert world.done == []
        world.on_disk.set()
        await turns()
        assert world.done == [("sent", "b:1")]
        await world.driver.close()

    run(test)


def test_every_kind_of_effect_has_its_action() -> None:
    async def test() -> None:
        world = World(
            [Follow(source=None), Drain(term=2), BecomePrimary(term=2), SteppedDown(term=2, reason="told to"), SEND]
        )
        world.driver.deliver(EVENT)
        await turns()
        assert world.done == [
            ("follow", None),
            ("drain", 2),
            ("become primary", 2),
            ("stepped down", 2),
            ("sent", "b:1"),
        ]
        await world.driver.close()

    run(test)


def test_a_held_queue_gives_nothing_out_and_keeps_the_order() -> None:
    queue = EffectQueue()
    persist = Persist(vote=VOTE)
    queue.add([persist, SEND])
    assert queue.next() is persist
    queue.hold()
    queue.add([Follow(source=None)])
    assert queue.next() is None
    with pytest.raises(AssertionError):
        queue.hold()
    queue.release()
    assert [queue.next(), queue.next(), queue.next()] == [SEND, Follow(source=None), None]


async def _ask(world: World) -> Any:
    answer = world.driver.ask(lambda token: EVENT)
    assert isinstance(answer, Awaitable), "it waits for the disk"
    return await answer
