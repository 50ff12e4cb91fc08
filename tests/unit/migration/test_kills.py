"""kill -9 of the donor or the recipient, and lost replies, at every step of a migration under write load.

The step at which something breaks is the number of an effect of the donor; each run restarts what was killed, lets
everything settle, and counts: every acknowledged document is visible exactly once, on the shard that owns it, and no
shard holds anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from docstore.errors import CommandError
from docstore.net import NetworkError
from docstore.sharding.donor import Effect
from mongod.migration.donor.driver import DonorDriver
from tests.unit.migration.local_cluster import Cluster

LAST_STEP = 15
DOCUMENTS = [f"{number:03}" for number in range(60)]


class Breaking:
    """Calls `act` before the effect with a given number, counted over the whole test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], None], *, after: bool) -> None:
        self.count = 0
        self.effects: list[Effect] = []
        carry_out = DonorDriver._carry_out

        async def counted(donation: DonorDriver, effect: Effect) -> Any:
            number, self.count = self.count, self.count + 1
            self.effects.append(effect)
            if number == step and not after:
                act()
                await asyncio.sleep(0)
            event = await carry_out(donation, effect)
            if number == step and after:
                act()
                await asyncio.sleep(0)
            return event

        monkeypatch.setattr(DonorDriver, "_carry_out", counted)


class Writer:
    """Inserts, changes and deletes documents until told to stop, and remembers what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stopping = False
        self.acknowledged: dict[str, int] = dict.fromkeys(DOCUMENTS, 0)
        self.unknown: set[str] = set()
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._stopping:
            number += 1
            value = DOCUMENTS[number * 7 % len(DOCUMENTS)]
            await self._one(value, number)
            await asyncio.sleep(0.0005)

    async def _one(self, value: str, number: int) -> None:
        if number % 3 == 0:
            command: dict[str, Any] = {"delete": "test", "deletes": [{"q": {"id": value}, "limit": 1}]}
        else:
            document = {"_id": value, "id": value, "n": number}
            command = {"update": "test", "updates": [{"q": {"id": value}, "u": document, "upsert": True}]}
        try:
            await self._cluster.write(command, value)
        except NetworkError:
            self.unknown.add(value)
            return
        self.unknown.discard(value)
        if number % 3 == 0:
            self.acknowledged.pop(value, None)
        else:
            self.acknowledged[value] = number

    async def stop(self) -> None:
        self._stopping = True
        await self._task


async def check(cluster: Cluster, writer: Writer) -> None:
    await writer.stop()
    await cluster.settled()
    found = await cluster.visible()
    assert all(len(rows) == 1 for rows in found.values())
    known = {value: rows[0].get("n", 0) for value, rows in found.items() if value not in writer.unknown}
    assert known == {value: n for value, n in writer.acknowledged.items() if value not in writer.unknown}
    for shard in ("shard1", "shard2"):
        for value in await cluster.stored(shard):
            assert cluster.chunk(value).shard == shard


async def revive(cluster: Cluster, victim: str) -> None:
    """Start the victim again soon after it died."""
    while victim != "reply":
        await cluster.members[victim].gone.wait()
        await asyncio.sleep(0.01)
        await cluster.restart(victim)


async def one_round(monkeypatch: pytest.MonkeyPatch, step: int, victim: str, *, after: bool) -> list[Effect]:
    cluster = await Cluster().build()
    lost: list[int] = []
    reviving: asyncio.Future[None] | None = None

    def act() -> None:
        if victim == "reply":
            lost.append(1)
        elif not cluster.members[victim].gone.is_set():
            cluster.members[victim].kill()

    def lose(address: str, name: str) -> bool:
        if lost and (name.startswith("_recvChunk") or name == "_configsvrCommitChunkMigration"):
            lost.clear()
            return True
        return False

    cluster.network.lose_reply = lose
    try:
        rows = [{"_id": value, "id": value} for value in DOCUMENTS]
        await cluster.write({"insert": "test", "documents": rows}, "0")
        await cluster.split("020")
        breaking = Breaking(monkeypatch, step, act, after=after)
        writer = Writer(cluster)
        reviving = asyncio.ensure_future(revive(cluster, victim))
        with contextlib.suppress(CommandError, NetworkError):
            await cluster.move("020", "shard2")
        await check(cluster, writer)
        return breaking.effects
    finally:
        if reviving is not None:
            reviving.cancel()
        await cluster.stop()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("victim", ["shard1", "shard2", "config", "reply"])
def test_nothing_is_lost_or_doubled_whatever_dies_at_whatever_step(
    monkeypatch: pytest.MonkeyPatch, victim: str, after: bool
) -> None:
    for step in range(LAST_STEP + 1):
        with monkeypatch.context() as patched:
            asyncio.run(one_round(patched, step, victim, after=after))


def test_a_commit_that_arrives_after_the_donor_died_and_came_back_is_refused() -> None:
    """What the dead donor had sent is still under way when the new one asks for the outcome: if it could succeed later,
    writes that the new one accepts meanwhile would be lost."""

    async def test() -> None:
        cluster = await Cluster().build()
        try:
            await cluster.write({"insert": "test", "documents": [{"_id": "1", "id": "1"}]}, "1")
            command = "_configsvrCommitChunkMigration"
            held = cluster.network.held[command] = asyncio.Event()
            moving = asyncio.ensure_future(cluster.move("1", "shard2"))
            await cluster.network.comes(command, to="config")
            cluster.members["shard1"].kill()
            with contextlib.suppress(CommandError, NetworkError):
                await moving
            await cluster.restart("shard1")
            await cluster.insert("2")
            held.set()
            await cluster.settled()
            assert sorted(await cluster.visible()) == ["1", "2"]
            assert cluster.chunk("1").shard == "shard1"
            assert await cluster.stored("shard2") == []
        finally:
            await cluster.stop()

    asyncio.run(test())


def test_a_donor_that_came_back_serves_nothing_before_it_knows_the_outcome() -> None:
    async def test() -> None:
        cluster = await Cluster().build()
        try:
            await cluster.write({"insert": "test", "documents": [{"_id": "1", "id": "1"}]}, "1")
            held = cluster.network.held["_configsvrEnsureChunkVersionIsGreaterThan"] = asyncio.Event()
            cluster.network.held["_configsvrCommitChunkMigration"] = asyncio.Event()
            moving = asyncio.ensure_future(cluster.move("1", "shard2"))
            await cluster.network.comes("_configsvrCommitChunkMigration", to="config")
            cluster.members["shard1"].kill()
            with contextlib.suppress(CommandError, NetworkError):
                await moving
            await cluster.restart("shard1")
            inserting = asyncio.ensure_future(cluster.insert("2"))
            reading = asyncio.ensure_future(cluster.visible())
            finished, _ = await asyncio.wait((inserting, reading), timeout=0.1)
            assert not finished, [task.exception() or task.result() for task in finished]
            held.set()
            await inserting
            assert set(await reading) >= {"1"}
        finally:
            await cluster.stop()

    asyncio.run(test())
