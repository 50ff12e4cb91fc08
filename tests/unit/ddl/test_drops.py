"""Drops over two shards and a config server in one process: what is gone stays gone, whoever crashes meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from docstore.sharding import requests
from docstore.sharding.ddl.requests import drop_collection, drop_database
from docstore.sharding.routing import Routing
from docstore.sharding.version import DatabaseVersion
from tests.unit.migration.local_cluster import NAMESPACE, Cluster

SHARDS = ("shard1", "shard2")


@asynccontextmanager
async def cluster(*, shard: bool = True) -> AsyncIterator[Cluster]:
    made = await Cluster().build(shard=shard)
    try:
        if shard:
            await made.insert("1")
            await made.split("5")
            await made.move("5", "shard2")
            await made.insert("7")
            await made.settled()
        yield made
    finally:
        await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


async def code_of(work: Awaitable[Any]) -> int:
    with pytest.raises(CommandError) as caught:
        await work
    return caught.value.code


async def rows(made: Cluster, name: str, collection: str) -> list[dict[str, Any]]:
    found = await made.ask(name, {"find": collection}, "config")
    listed: list[dict[str, Any]] = found["cursor"]["firstBatch"]
    return listed


async def version_of(made: Cluster, database: str = "test") -> DatabaseVersion:
    version = (await made.routing_of(f"{database}.x")).database
    assert version is not None
    return version


async def nothing_is_left(made: Cluster) -> None:
    """Return when no operation is under way and nothing is held."""
    while True:
        left = [row for name in SHARDS for row in await rows(made, name, "system.sharding_ddl_coordinators")]
        left += [row for name in SHARDS for row in await rows(made, name, "collection_critical_sections")]
        if not left:
            return
        await asyncio.sleep(0.01)


async def persistently(made: Cluster, command: dict[str, Any]) -> dict[str, Any]:
    """Ask the primary shard until it answers, as a router does."""
    while True:
        try:
            return await made.ask("shard1", command)
        except (NetworkError, CommandError) as error:
            if isinstance(error, CommandError) and error.code not in (
                Code.InterruptedDueToReplStateChange, Code.HostUnreachable
            ):  # fmt: skip
                raise
            await asyncio.sleep(0.01)


async def done_though_killed(
    made: Cluster, command: dict[str, Any], victim: str, number: int, told: frozenset[str]
) -> dict[str, Any]:
    """The reply to a command, whose `victim` is killed when the message of that number, of those in `told`, has been
    answered; then nothing is under way.
    """
    count = itertools.count()
    killed = asyncio.Event()

    def lose(_address: str, name: str) -> bool:
        if name in told and next(count) == number:
            made.members[victim].kill()
            killed.set()
            return True
        return False

    made.network.lose_reply = lose
    work = asyncio.ensure_future(persistently(made, command))
    await asyncio.wait([work, asyncio.ensure_future(killed.wait())], return_when=asyncio.FIRST_COMPLETED)
    made.network.lose_reply = lambda _address, _name: False
    if killed.is_set():
        await made.restart(victim)
    reply = await work
    await nothing_is_left(made)
    return reply


def insert(made: Cluster, routing: Routing, shard: str, collection: str = "test") -> Awaitable[dict[str, Any]]:
    """A write of a router that works by that routing."""
    command = {"insert": collection, "documents": [{"id": "0"}]}
    return made.ask(shard, made.versioned(command, routing.shard_version(shard)), "test")


_TOLD = frozenset(
    ("_shardsvrParticipantBlock", "_shardsvrParticipantAct", "_configsvrRemoveCollection", "_configsvrRemoveDatabase")
)


@pytest.mark.parametrize(("victim", "number"), list(itertools.product((*SHARDS, "config"), range(7))))
def test_a_drop_is_carried_to_its_end_whoever_is_killed_at_whatever_message(victim: str, number: int) -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.refresh()
            drop = drop_collection(NAMESPACE, made.uuid)
            await done_though_killed(made, drop, victim, number, _TOLD)
            assert await rows(made, "config", "collections") == []
            for shard in SHARDS:
                assert made.members[shard].node.store.collection(NAMESPACE) is None
                assert await code_of(insert(made, old, shard)) == Code.StaleConfig
            await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            await made.refresh()
            await made.split("5")
            await made.move("5", "shard2")
            await made.insert("7")
            assert sorted(await made.visible()) == ["7"]

    run(test)


def test_a_half_dropped_collection_takes_no_write_and_leaves_no_ghost() -> None:
    """A shard that has dropped its part and then lost its memory must not make the collection anew."""

    async def test() -> None:
        async with cluster() as made:
            old = await made.refresh()
            held = made.network.held["_configsvrRemoveCollection"] = asyncio.Event()
            dropping = asyncio.ensure_future(persistently(made, drop_collection(NAMESPACE, made.uuid)))
            await made.network.comes("_configsvrRemoveCollection", to="config")
            made.members["shard2"].kill()
            await made.restart("shard2")
            writing = asyncio.ensure_future(insert(made, old, "shard2"))
            await made.network.waits("shard2", NAMESPACE)
            assert not writing.done()
            held.set()
            del made.network.held["_configsvrRemoveCollection"]
            await dropping
            assert await code_of(writing) == Code.StaleConfig
            assert made.members["shard2"].node.store.collection(NAMESPACE) is None

    run(test)


def test_change_streams_hear_of_a_drop_from_the_primary_shard() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", drop_collection(NAMESPACE, made.uuid))
            for name in SHARDS:
                store = made.members[name].node.store
                assert store.oplog is not None
                entries = [bson.decode(entry) for entry in store.oplog.scan(store.engine, 0)]
                drops = [each for each in entries if "drop" in each["o"] and each["ns"] == "test.$cmd"]
                assert ["fromMigrate" in each for each in drops] == [name != "shard1"]

    run(test)


def test_a_late_request_of_an_ended_drop_does_nothing() -> None:
    async def test() -> None:
        async with cluster() as made:
            drop = drop_collection(NAMESPACE, made.uuid)
            late: list[tuple[str, dict[str, Any]]] = []
            command = made.network.command

            async def recording(address: str, db: str, body: Any, **options: Any) -> bytes:
                if isinstance(body, dict) and next(iter(body)).startswith("_shardsvrParticipant"):
                    late.append((address.partition(":")[0], body))
                return await command(address, db, body, **options)

            made.network.command = recording  # type: ignore[method-assign]
            await made.ask("shard1", drop)
            await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            await made.refresh()
            await made.insert("1")
            made.network.command = command  # type: ignore[method-assign]
            assert {"_shardsvrParticipantAct", "_shardsvrParticipantBlock"} == {next(iter(body)) for _, body in late}
            for name, body in late:
                if not body.get("release", False):
                    assert await code_of(made.ask(name, body)) == Code.OperationFailed
            assert sorted(await made.visible()) == ["1"]

    run(test)


def test_two_routers_never_work_on_two_databases_of_one_name() -> None:
    """A shard that had a database before it was dropped and made anew elsewhere refuses who still believes in it."""

    async def test() -> None:
        async with cluster(shard=False) as made:
            slow = await made.routing_of("test.plain")
            await insert(made, slow, "shard1", "plain")
            held = made.network.held["_configsvrRemoveDatabase"] = asyncio.Event()
            dropping = asyncio.ensure_future(made.ask("shard1", drop_database("test", await version_of(made))))
            await made.network.comes("_configsvrRemoveDatabase", to="config")
            writing = [asyncio.ensure_future(insert(made, slow, "shard1", "plain")) for _ in range(2)]
            await made.network.waits("shard1", "test.plain", 2)
            assert not any(each.done() for each in writing)
            held.set()
            await dropping
            assert [await code_of(each) for each in writing] == [Code.StaleDbVersion] * 2
            await made.ask("config", requests.enable_sharding("test", "shard2"))
            fresh = await made.routing_of("test.plain")
            assert fresh.primary == "shard2"
            await insert(made, fresh, "shard2", "plain")
            for collection in ("plain", "new"):
                assert await code_of(insert(made, slow, "shard1", collection)) == Code.StaleDbVersion
            assert made.members["shard1"].node.store.namespaces("test") == []

    run(test)


def test_a_database_made_anew_on_the_same_shard_is_another_one() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            slow = await made.routing_of("test.plain")
            await insert(made, slow, "shard1", "plain")
            await made.ask("shard1", drop_database("test", await version_of(made)))
            assert await code_of(insert(made, slow, "shard1", "plain")) == Code.StaleDbVersion
            await made.ask("config", requests.enable_sharding("test", "shard1"))
            assert await code_of(insert(made, slow, "shard1", "plain")) == Code.StaleDbVersion
            assert (await insert(made, await made.routing_of("test.plain"), "shard1", "plain"))["n"] == 1

    run(test)


@pytest.mark.parametrize(("victim", "number"), list(itertools.product((*SHARDS, "config"), range(7))))
def test_a_dropped_database_is_gone_whoever_is_killed_at_whatever_message(victim: str, number: int) -> None:
    async def test() -> None:
        async with cluster() as made:
            sharded, plain = await made.refresh(), await made.routing_of("test.plain")
            await insert(made, plain, "shard1", "plain")
            drop = drop_database("test", await version_of(made))
            await done_though_killed(made, drop, victim, number, _TOLD)
            assert await rows(made, "config", "databases") == []
            assert await rows(made, "config", "collections") == []
            assert await rows(made, "config", "chunks") == []
            for shard in SHARDS:
                assert made.members[shard].node.store.namespaces("test") == []
                assert await code_of(insert(made, sharded, shard)) == Code.StaleConfig
            assert await code_of(insert(made, plain, "shard1", "plain")) == Code.StaleDbVersion

    run(test)


def test_a_drop_ends_a_migration_and_none_begins_meanwhile() -> None:
    async def test() -> None:
        async with cluster() as made:
            held = made.network.held["_recvChunkDocuments"] = asyncio.Event()
            moving = asyncio.ensure_future(made.move("1", "shard2"))
            await made.network.comes("_recvChunkDocuments")
            dropping = asyncio.ensure_future(made.ask("shard1", drop_collection(NAMESPACE, made.uuid)))
            holds = made.members["shard1"].shard.shard_filter.holds
            await made.network.until(lambda: holds.conflicting(NAMESPACE) is not None)
            held.set()
            assert (await dropping)["dropped"]
            assert await code_of(moving) in (Code.OperationFailed, Code.StaleEpoch)
            await made.settled()
            for shard in SHARDS:
                assert made.members[shard].node.store.collection(NAMESPACE) is None

    run(test)


def test_the_same_drop_asked_twice_is_one_and_another_one_waits() -> None:
    async def test() -> None:
        async with cluster() as made:
            drop = drop_collection(NAMESPACE, made.uuid)
            held = made.network.held["_shardsvrParticipantAct"] = asyncio.Event()
            dropping = [asyncio.ensure_future(made.ask("shard1", drop)) for _ in range(2)]
            await made.network.comes("_shardsvrParticipantAct")
            waiting = drop_database("test", await version_of(made))
            assert await code_of(made.ask("shard1", {**waiting, "maxTimeMS": 20})) == Code.MaxTimeMSExpired
            held.set()
            assert [(await each)["dropped"] for each in dropping] == [True, True]
            assert await rows(made, "shard2", "collection_critical_sections") == []
            holds = await rows(made, "shard2", "released_critical_sections")
            assert [hold["released"] for hold in holds] == [True]

    run(test)
