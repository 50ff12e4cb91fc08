"""Indexes and options of a collection over two shards: the same on all of them, whatever fails on one."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.sharding.ddl.requests import change_collection
from tests.unit.ddl.test_drops import SHARDS, nothing_is_left, persistently, run
from tests.unit.migration.local_cluster import NAMESPACE, Cluster


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Ids below "5" on shard1, the others on shard2."""
    made = await Cluster().build()
    try:
        await made.split("5")
        await made.move("5", "shard2")
        await made.settled()
        yield made
    finally:
        await made.stop()


def change(made: Cluster, request: dict[str, Any]) -> dict[str, Any]:
    return change_collection(NAMESPACE, made.epoch, bson.encode(request))


def create(*names: str, **options: Any) -> dict[str, Any]:
    return {"createIndexes": "test", "indexes": [{"key": {name: 1}, "name": name, **options} for name in names]}


async def indexes(made: Cluster, shard: str) -> list[str]:
    reply = await made.ask(shard, {"listIndexes": "test"}, "test")
    return sorted(index["name"] for index in reply["cursor"]["firstBatch"])


async def refused(work: Awaitable[Any]) -> CommandError:
    with pytest.raises(CommandError) as caught:
        await work
    return caught.value


def test_indexes_are_made_on_every_owner() -> None:
    async def test() -> None:
        async with cluster() as made:
            reply = await made.ask("shard1", change(made, create("a", "b")))
            assert {name: part["numIndexesAfter"] for name, part in reply["shards"].items()} == {
                "shard1": 4,
                "shard2": 4,
            }
            for shard in SHARDS:
                assert await indexes(made, shard) == ["_id_", "a", "b", "id_1"]
            again = await made.ask("shard1", change(made, create("a", "b")))
            assert again["shards"]["shard2"]["note"] == "all indexes already exist"

    run(test)


def test_indexes_that_cannot_be_built_on_one_shard_are_on_none() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", change(made, create("before")))
            for value in ("1", "2"):
                await made.insert(value, a=int(value), b=[1])
            for value in ("7", "8"):
                await made.insert(value, a=1, b=[1], c=[1])
            parallel = {"key": {"b": 1, "c": 1}, "name": "bc"}
            request = create("before", "a")
            request["indexes"].append(parallel)
            error = await refused(made.ask("shard1", change(made, request)))
            assert error.code == Code.CannotIndexParallelArrays
            assert {name: part["ok"] for name, part in error.extra["shards"].items()} == {"shard1": 1.0, "shard2": 0.0}
            for shard in SHARDS:
                assert await indexes(made, shard) == ["_id_", "before", "id_1"]
            await nothing_is_left(made)

    run(test)


@pytest.mark.parametrize("victim", SHARDS)
def test_an_undone_build_is_undone_whoever_is_killed(victim: str) -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("1", b=[1])
            await made.insert("7", b=[1], c=[1])
            request = {"createIndexes": "test", "indexes": [{"key": {"b": 1, "c": 1}, "name": "bc"}]}
            killed = asyncio.Event()

            def lose(address: str, name: str) -> bool:
                if name == "_shardsvrParticipantAct" and address == "shard1:1" and not killed.is_set():
                    made.members[victim].kill()
                    killed.set()
                    return True
                return False

            made.network.lose_reply = lose
            asking = asyncio.ensure_future(persistently(made, change(made, request)))
            await killed.wait()
            await made.restart(victim)
            assert (await refused(asking)).code == Code.CannotIndexParallelArrays
            await nothing_is_left(made)
            for shard in SHARDS:
                assert await indexes(made, shard) == ["_id_", "id_1"]

    run(test)


def test_dropped_indexes_are_dropped_everywhere_even_where_only_one_shard_had_them() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", change(made, create("a", "b")))
            await made.ask("shard2", {"dropIndexes": "test", "index": "a"}, "test")
            await made.ask("shard2", create("c"), "test")
            reply = await made.ask("shard1", change(made, {"dropIndexes": "test", "index": "*"}))
            assert reply["shards"]["shard1"]["nIndexesWas"] == 4
            for shard in SHARDS:
                assert await indexes(made, shard) == ["_id_", "id_1"]
            error = await refused(made.ask("shard1", change(made, {"dropIndexes": "test", "index": "a"})))
            assert error.code == Code.IndexNotFound

    run(test)


def test_a_refused_change_of_options_changes_nothing() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", change(made, create("a", expireAfterSeconds=100)))
            index = {"name": "a", "expireAfterSeconds": 200}
            reply = await made.ask("shard1", change(made, {"collMod": "test", "index": index}))
            assert {part["expireAfterSeconds_new"] for part in reply["shards"].values()} == {200}
            assert len(reply["shards"]) == 2
            error = await refused(made.ask("shard1", change(made, {"collMod": "test", "cappedSize": 5000})))
            assert error.code == Code.InvalidOptions
            await nothing_is_left(made)

    run(test)


def test_a_ttl_index_that_was_dropped_while_a_shard_owned_nothing_deletes_nothing_there() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", change(made, create("at", expireAfterSeconds=0)))
            await made.ask("shard1", change(made, create("kept")))
            await made.move("7", "shard1")
            await made.settled()
            await made.ask("shard1", change(made, {"dropIndexes": "test", "index": "at"}))
            await made.ask("shard1", change(made, {"collMod": "test", "validator": {"at": {"$exists": True}}}))
            assert await indexes(made, "shard2") == ["_id_", "at", "id_1", "kept"]
            past = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
            for number in range(100):
                await made.insert(f"{number:02}", at=past)
            await made.move("7", "shard2")
            assert await indexes(made, "shard2") == ["_id_", "id_1", "kept"]
            listed = [await made.ask(shard, {"listCollections": 1}, "test") for shard in SHARDS]
            options = [reply["cursor"]["firstBatch"][0]["options"] for reply in listed]
            assert options[0] == options[1]
            assert len(await made.visible()) == 100

    run(test)


def test_a_change_of_indexes_ends_a_migration_that_began_before_it() -> None:
    """Its recipient has been told the indexes of before."""

    async def test() -> None:
        async with cluster() as made:
            await made.insert("1")
            await made.move("7", "shard1")
            await made.settled()
            held = made.network.held["_recvChunkDocuments"] = asyncio.Event()
            made.network.seen.clear()
            moving = asyncio.ensure_future(made.move("7", "shard2"))
            await made.network.comes("_recvChunkDocuments")
            await made.ask("shard1", change(made, create("a")))
            held.set()
            assert (await refused(moving)).code == Code.OperationFailed
            await made.settled()
            del made.network.held["_recvChunkDocuments"]
            await made.move("7", "shard2")
            assert await indexes(made, "shard2") == ["_id_", "a", "id_1"]
            await made.settled()

    run(test)


def test_a_late_request_to_build_does_nothing_once_the_build_is_being_undone() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("7", b=[1], c=[1])
            request = {"createIndexes": "test", "indexes": [{"key": {"b": 1, "c": 1}, "name": "bc"}]}
            asked: list[dict[str, Any]] = []
            command = made.network.command
            undoing, late_is_answered = asyncio.Event(), asyncio.Event()

            async def recording(address: str, db: str, body: Any, **options: Any) -> bytes:
                if address == "shard1:1" and isinstance(body, dict) and "_shardsvrParticipantAct" in body:
                    asked.append(body)
                    reply = await command(address, db, body, **options)
                    if len(asked) == 2:
                        undoing.set()
                        await late_is_answered.wait()
                    return reply
                return await command(address, db, body, **options)

            made.network.command = recording  # type: ignore[method-assign]
            asking = asyncio.ensure_future(made.ask("shard1", change(made, request)))
            await undoing.wait()
            assert [body["document"]["phase"] for body in asked] == ["preparing", "undoing"]
            late = bson.decode(await command("shard1:1", "admin", asked[0], check=False))
            late_is_answered.set()
            assert late["code"] == Code.OperationFailed
            assert (await refused(asking)).code == Code.CannotIndexParallelArrays
            assert await indexes(made, "shard1") == ["_id_", "id_1"]

    run(test)
