"""The driver does what the core says in order, and lets nothing out before what it depends on is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import bson
import pytest
from bson.timestamp import Timestamp

from docstore.collection.store import Store
from docstore.net.errors import NetworkError
from docstore.net.pool import Pool
from docstore.replicaset.driver import Driver
from docstore.replicaset.local_state import LocalState
from docstore.replication.config import ConfigVersion, ReplicaSetConfig
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
from docstore.replication.messages import Answered, HeartbeatRequest, LastVote, Progress, StepUpRequest
from docstore.replication.states import MemberState
from docstore.storage import StorageError, open_engine
from tests.harness.faulty_engine import FaultyEngine
from tests.unit.replication.members import op

VOTE = LastVote(term=3, candidate=1)
EVENT = Progress(applied=op(1, 1), durable=op(1, 1))
SEND = Send(to="b:1", request=StepUpRequest(), timeout=1.0)


class ScriptedCore:
    """Answers each event with the next of some lists."""

    def __init__(self, *scripts: list[Effect]) -> None:
        self.scripts = list(scripts)
        self.heard: list[Any] = []

    def receive(self, event: Any, now: float) -> list[Effect]:
        self.heard.append(event)
        return self.scripts.pop(0) if self.scripts else []

    def next_wakeup(self) -> float:
        return float("inf")

    def check(self) -> None: ...


class World:
    """A driver, and what it has done so far, in order; the disk is as slow as the test wants, and as bad."""

    def __init__(self, *scripts: list[Effect]) -> None:
        self.fatal: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.fatal.append(context["exception"]))
        self.disk: Any = FaultyEngine(open_engine("inMemory", ""))
        self.done: list[Any] = []
        self.reply: bytes | None = None
        self.on_disk = asyncio.Event()
        self.flushed: list[LastVote] = []
        self.local = LocalState(Store(self.disk, clock=lambda: 0.0))
        self.core, pool = ScriptedCore(*scripts), cast(Pool, self)
        self.driver = Driver(cast(Core, self.core), self, self.local, pool, flush=self.flush)

    async def flush(self) -> None:
        self.flushed.append(self.local.vote)
        self.disk.flush()
        await self.on_disk.wait()
        self.on_disk.clear()

    async def command(self, to: str, *args: Any, **options: Any) -> bytes:
        self.done.append(("sent", to))
        if self.reply is None:
            raise NetworkError(to, "nobody is there", sent=False)
        return self.reply

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


@pytest.mark.parametrize("fault", ["full disk", "failed write", "failed flush"])
def test_nothing_behind_a_vote_that_is_not_on_disk_is_ever_done(fault: str) -> None:
    """The process ends; until it has ended no other event lets out what waits behind the vote either."""

    async def test() -> None:
        world = World([Persist(vote=VOTE), SEND, Reply(token=1, result="granted"), BecomePrimary(term=3)], [SEND], [])
        if fault == "full disk":
            world.disk.fill_disk()
        elif fault == "failed write":
            world.disk.write_error = StorageError("Input/output error")
        else:
            world.disk.flush_error = StorageError("Input/output error")
        asked = asyncio.ensure_future(_ask(world))
        await turns()
        assert [type(error) for error in world.fatal] == [AssertionError]
        world.disk.write_error = world.disk.flush_error = None
        world.on_disk.set()
        world.driver.deliver(EVENT)
        world.driver.deliver(EVENT)
        await turns()
        assert world.done == []
        assert not asked.done()
        asked.cancel()
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


HEALTHY = {
    "set": "set", "state": 2, "term": 1, "v": 1, "configTerm": 1, "appliedOpTime": {"ts": Timestamp(1, 1), "t": 1},
    "durableOpTime": {"ts": Timestamp(1, 1), "t": 1}, "lastOpCommitted": {"ts": Timestamp(1, 1), "t": 1}, "ok": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "reply",
    [
        bson.encode(HEALTHY | {"state": 99}),
        bson.encode(HEALTHY | {"electionTime": "now"}),
        bson.encode(HEALTHY | {"replicaSetId": 5}),
        bson.encode(HEALTHY | {"config": 5}),
        bson.encode(HEALTHY | {"config": {"_id": "set", "version": 1, "members": []}}),
        bson.encode(HEALTHY | {"config": {"_id": "set", "version": 1, "members": [{"_id": 0, "host": "a:b"}]}}),
        bson.encode(HEALTHY)[:-9] + b"\xff" * 9,
        b"\x05\0\0\0\0",
        b"",
    ],
)
def test_a_reply_that_cannot_be_read_is_no_answer_and_said_once(reply: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        request = HeartbeatRequest(set_name="set", sender="a:1", sender_id=0, config=ConfigVersion(1, 1), term=1)
        heartbeat = Send(to="b:1", request=request, timeout=1.0)
        world = World([heartbeat], [heartbeat], [])
        world.reply = reply
        for _ in range(2):
            world.driver.deliver(EVENT)
            await turns()
        answers = [event for event in world.core.heard if isinstance(event, Answered)]
        assert answers
        assert all(answer.reply is None and answer.error for answer in answers)
        assert [record.levelname for record in caplog.records if record.name.endswith("REPL")].count("WARNING") <= 1
        world.reply = bson.encode(HEALTHY)
        world.core.scripts.append([heartbeat])
        world.driver.deliver(EVENT)
        await turns()
        assert world.core.heard[-1].reply.state is MemberState.SECONDARY
        await world.driver.close()

    run(test)


async def _ask(world: World) -> Any:
    answer = world.driver.ask(lambda token: EVENT)
    assert isinstance(answer, Awaitable), "it waits for the disk"
    return await answer
