"""What the donor's secondaries serve while a chunk changes hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from docstore.errors import Code, CommandError
from docstore.node.process.settings import ClusterRole
from docstore.sharding import requests
from docstore.sharding.migration import COORDINATORS, Coordinator
from docstore.sharding.version import ShardVersion
from docstore.storage import open_engine
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, Member, Secondary

COMMIT = "_configsvrCommitChunkMigration"


class Moving:
    """A chunk on its way from shard1, and a secondary of that shard."""

    def __init__(self, made: Cluster, secondary: Member, version: ShardVersion) -> None:
        self.made = made
        self.secondary = secondary
        self.version = version

    def follow(self) -> None:
        self.secondary.follow(self.made.members["shard1"])

    def read(self, value: str) -> asyncio.Task[dict[str, Any]]:
        """From the secondary, by a router that does not know of the move."""
        command = self.made.versioned({"find": "test", "filter": {"id": value}}, self.version)
        return asyncio.ensure_future(self.made.ask("secondary", command, "test"))

    async def begin(self) -> asyncio.Task[None]:
        """Return when the chunk has moved, which the donor does not hear before `end`."""
        self.made.network.lose_reply = lambda _address, command: command == COMMIT
        task = asyncio.ensure_future(self.made.move("0100", "shard2"))
        network = self.made.network
        await network.until(lambda: ("config:1", COMMIT) in network.answered)
        await self.made.refresh()
        assert self.made.chunk("0100").shard == "shard2"
        return task

    async def end(self, task: asyncio.Task[None]) -> None:
        self.made.network.lose_reply = lambda _address, _command: False
        await task


@asynccontextmanager
async def moving() -> AsyncIterator[Moving]:
    """A donor with documents, and a secondary of it that has served a read of them."""
    made = await Cluster().build()
    secondary = Member(made.network, "secondary", ClusterRole.SHARD, open_engine("inMemory", ""), Secondary)
    try:
        rows = [{"_id": value, "id": value, "written": "before"} for value in ("0050", "0150")]
        await made.write({"insert": "test", "documents": rows}, "0")
        await made.split("0100")
        secondary.follow(made.members["shard1"])
        await secondary.start()
        assert made.routing is not None
        move = Moving(made, secondary, made.routing.shard_version("shard1"))
        assert (await move.read("0150"))["cursor"]["firstBatch"][0]["written"] == "before"
        yield move
    finally:
        made.network.lose_reply = lambda _address, _command: False
        await made.stop()
        await secondary.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_a_secondary_that_is_as_far_as_a_write_to_the_new_owner_shows_no_older_copy() -> None:
    async def test() -> None:
        async with moving() as move:
            task = await move.begin()
            change = {"q": {"id": "0150"}, "u": {"$set": {"written": "after"}}}
            await move.made.write({"update": "test", "updates": [change]}, "0150")
            # All that the donor has logged by the time of that write, and more: what has a later time comes after it.
            move.follow()
            reading = move.read("0150")
            _, waiting = await asyncio.wait((reading,), timeout=0.1)
            assert waiting, reading.result()
            await move.end(task)
            move.follow()
            with pytest.raises(CommandError) as caught:
                await reading
            assert caught.value.code == Code.StaleConfig

    run(test)


def test_a_secondary_goes_on_when_the_config_servers_have_refused() -> None:
    async def test() -> None:
        async with moving() as move:
            held = move.made.network.held[COMMIT] = asyncio.Event()
            task = asyncio.ensure_future(move.made.move("0100", "shard2"))
            await move.made.network.comes(COMMIT, to="config")
            move.follow()
            reading = move.read("0150")
            _, waiting = await asyncio.wait((reading,), timeout=0.1)
            assert waiting, reading.result()
            # Somebody else changes the chunk's version: the commit comes too late.
            chunk = move.made.chunk("0100")
            later = requests.ensure_chunk_version_greater(NAMESPACE, move.made.epoch, chunk.range, chunk.lastmod)
            await move.made.ask("config", later)
            held.set()
            with pytest.raises(CommandError):
                await task
            move.follow()
            with pytest.raises(CommandError) as caught:
                await reading
            assert caught.value.code == Code.StaleConfig
            move.version = (await move.made.refresh()).shard_version("shard1")
            assert (await move.read("0150"))["cursor"]["firstBatch"][0]["written"] == "before"

    run(test)


def test_reads_wait_on_a_member_that_came_by_the_document_unheard_and_no_longer_than_it_stands() -> None:
    async def test() -> None:
        async with moving() as move:
            task = await move.begin()
            donor, handovers = move.made.members["shard1"].shard, move.secondary.shard.shard_filter.handovers
            (coordinator,) = donor.records.coordinators()
            assert coordinator == Coordinator(coordinator.migration, blocks_reads=True)
            move.follow()
            section = handovers.sections.pop(NAMESPACE)
            handovers.load()
            assert NAMESPACE in handovers.sections
            assert handovers.sections[NAMESPACE] is not section
            await move.end(task)
            store = move.secondary.node.store
            with store.unit() as unit:
                store.drop_collection(unit, COORDINATORS)
                unit.commit()
            handovers.load()
            assert not handovers.sections

    run(test)
