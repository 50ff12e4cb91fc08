"""Notes of dropped databases stay few, and what they said is refused as before, whatever a config server shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from bson.timestamp import Timestamp

from docstore.errors import Code
from docstore.sharding import requests
from docstore.sharding.ddl import incarnations
from docstore.sharding.ddl.incarnations import DATABASES, FENCE, joinable, joined
from docstore.sharding.ddl.requests import drop_database
from docstore.sharding.routing import Routing
from mongod.migration.config_servers import ConfigServers
from mongod.migration.upkeep.database_fence import stored_fence
from mongod.migration.upkeep.database_notes import join_some
from tests.unit.ddl.test_drops import SHARDS, code_of, insert, run, version_of
from tests.unit.migration.local_cluster import Cluster


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incarnations, "MAX_DATABASE_NOTES", 3)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    made = await Cluster().build(shard=False)
    try:
        yield made
    finally:
        await made.stop()


async def dropped(made: Cluster, name: str) -> Routing:
    """What a router knew of a database that has been made, used and dropped."""
    await made.ask("config", requests.enable_sharding(name, "shard1"))
    routing = await made.routing_of(f"{name}.test")
    command = made.versioned({"insert": "test", "documents": [{"id": "0"}]}, routing.shard_version("shard1"))
    await made.ask("shard1", command, name)
    await made.ask("shard1", drop_database(name, await version_of(made, name)))
    return routing


async def join(made: Cluster) -> None:
    for name in SHARDS:
        while await join_some(made.members[name].shard):
            pass


async def notes(made: Cluster, shard: str = "shard1") -> set[str]:
    found = await made.ask(shard, {"find": DATABASES.partition(".")[2], "batchSize": 20_000}, "config")
    return {row["_id"] for row in found["cursor"]["firstBatch"]}


def test_names_that_are_made_and_dropped_leave_a_bounded_number_of_notes() -> None:
    async def test() -> None:
        async with cluster() as made:
            for number in range(12):
                await dropped(made, f"db{number}")
                await join(made)
                assert len(await notes(made)) <= 4
            assert FENCE in await notes(made)

    run(test)


def test_notes_of_ten_thousand_names_become_one_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incarnations, "MAX_DATABASE_NOTES", 1000)

    async def test() -> None:
        async with cluster() as made:
            records = made.members["shard1"].shard.records
            rows = [{"_id": f"db{number}", "droppedUntil": Timestamp(1, number + 1)} for number in range(10_000)]
            records.write(*((DATABASES, row) for row in rows))
            await join(made)
            left = await notes(made)
            assert FENCE in left
            assert len(left) <= 1001
            fence = stored_fence(made.members["shard1"].node)
            assert fence is not None
            assert fence["droppedUntil"] >= Timestamp(1, 9000)

    run(test)


def test_a_joined_note_refuses_what_a_config_server_that_lags_still_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            slow = await dropped(made, "db0")
            for number in range(1, 5):
                await dropped(made, f"db{number}")
            await join(made)
            assert "db0" not in await notes(made)

            async def lagging(_config: ConfigServers, _namespace: str, _known: Routing | None) -> Routing:
                return slow

            made.members["shard1"].shard.shard_filter.forget_database("db0")
            monkeypatch.setattr(ConfigServers, "routing", lagging)
            command = made.versioned({"insert": "test", "documents": [{"id": "1"}]}, slow.shard_version("shard1"))
            assert await code_of(made.ask("shard1", command, "db0")) == Code.StaleDbVersion
            assert made.members["shard1"].node.store.namespaces("db0") == []

    run(test)


def test_a_database_older_than_the_fence_is_confirmed_once_while_the_fence_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []
    ask = ConfigServers.database_timestamps

    async def counting(config: ConfigServers, names: list[str]) -> dict[str, Timestamp]:
        asked.append(list(names))
        return await ask(config, names)

    async def test() -> None:
        async with cluster() as made:
            live = await made.routing_of("test.plain")
            for number in range(5):
                await dropped(made, f"db{number}")
            await join(made)
            monkeypatch.setattr(ConfigServers, "database_timestamps", counting)
            shard = made.members["shard1"].shard
            for collection in ("plain", "other", "plain"):
                shard.shard_filter.forget_database("test")
                assert (await insert(made, live, "shard1", collection))["n"] == 1
            assert asked == [["test"]]
            await dropped(made, "newer")
            assert asked == [["test"]], "what is newer than the fence needs no confirmation"

    run(test)


def test_the_note_of_a_drop_under_way_is_not_joined() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.routing_of("test.plain")
            for number in range(3):
                await dropped(made, f"db{number}")
            held = made.network.held["_configsvrRemoveDatabase"] = asyncio.Event()
            dropping = asyncio.ensure_future(made.ask("shard1", drop_database("test", await version_of(made))))
            await made.network.comes("_configsvrRemoveDatabase", to="config", times=4)
            await join(made)
            assert await notes(made) == {FENCE, "test"}
            held.set()
            await dropping

    run(test)


def test_the_fence_rises_and_is_another_one_each_time() -> None:
    old = {"_id": "a", "droppedUntil": Timestamp(3, 0)}
    new = {"_id": "b", "droppedUntil": Timestamp(5, 0)}
    current = {"a": Timestamp(3, 0), "b": Timestamp(5, 1)}
    assert joinable([old, new], current) == [new]
    assert joinable([old, new], {}) == [old, new]
    fence = joined(None, [new])
    lower = joined(fence, [old])
    assert (lower["_id"], lower["droppedUntil"]) == (FENCE, Timestamp(5, 0))
    assert lower["joined"] != fence["joined"]
