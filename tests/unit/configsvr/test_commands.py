"""The config servers' commands over two shards in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson.binary import Binary
from bson.objectid import ObjectId

from configsvr.server import ConfigServer
from docstore.errors import Code, CommandError
from docstore.node.process.settings import ClusterRole
from docstore.sharding import requests
from docstore.sharding.ddl.requests import drop_collection, drop_database
from docstore.sharding.version import DatabaseVersion
from docstore.storage import open_engine
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, Member


@asynccontextmanager
async def cluster(*, shard: bool = True) -> AsyncIterator[Cluster]:
    made = await Cluster().build(shard=shard)
    try:
        yield made
    finally:
        await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def refused(work: Awaitable[Any]) -> int:
    with pytest.raises(CommandError) as caught:
        await work
    return caught.value.code


async def rows(made: Cluster, collection: str) -> list[dict[str, Any]]:
    found = await made.ask("config", {"find": collection, "sort": {"_id": 1}}, "config")
    listed: list[dict[str, Any]] = found["cursor"]["firstBatch"]
    return listed


def test_an_added_shard_knows_its_name_and_is_listed() -> None:
    async def test() -> None:
        async with cluster() as made:
            assert [(row["_id"], row["host"], row["state"]) for row in await rows(made, "shards")] == [
                ("shard1", "shard1/shard1:1", 1),
                ("shard2", "shard2/shard2:1", 1),
            ]
            (version,) = await rows(made, "version")
            assert (version["_id"], version["minCompatibleVersion"], version["currentVersion"]) == (1, 5, 6)
            identity = made.members["shard2"].shard.identity
            assert identity is not None
            assert (identity.name, identity.cluster) == ("shard2", version["clusterId"])
            assert identity.config == "config/config:1"
            again = await made.ask("config", requests.add_shard("shard2/shard2:1", "shard2"))
            assert again["shardAdded"] == "shard2"

    run(test)


def test_shards_that_cannot_be_added_are_refused_and_change_nothing() -> None:
    async def test() -> None:
        async with cluster() as made:
            plain = await Member(made.network, "plain", ClusterRole.NONE, open_engine("inMemory", "")).start()
            made.members["plain"] = plain
            for target, name, code in (
                ("nothing", None, Code.FailedToParse),
                ("set/h", None, Code.FailedToParse),
                ("other/shard1:1", None, Code.OperationFailed),
                ("shard1/shard1:1", "elsewhere", Code.IllegalOperation),
                ("shard1/shard1:1,stranger:1", "x", Code.OperationFailed),
                ("plain/plain:1", None, Code.OperationFailed),
                ("shard1/shard1:1", "config", Code.BadValue),
            ):
                assert await refused(made.ask("config", requests.add_shard(target, name))) == code, target
            assert len(await rows(made, "shards")) == 2

    run(test)


def test_a_shard_of_another_cluster_is_refused() -> None:
    async def test() -> None:
        async with cluster() as made:
            other = await Member(made.network, "config2", ClusterRole.CONFIG, open_engine("inMemory", "")).start()
            made.members["config2"] = other
            code = await refused(made.ask("config2", requests.add_shard("shard1/shard1:1", "shard1")))
            assert code == Code.OperationFailed

    run(test)


def test_a_dropped_collection_is_gone_everywhere_and_can_be_sharded_anew() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("1")
            await made.split("1")
            await made.move("1", "shard2")
            await made.insert("0")
            old = made.epoch
            drop = drop_collection(NAMESPACE, made.uuid)
            assert (await made.ask("shard1", drop))["dropped"]
            assert await rows(made, "chunks") == []
            assert await rows(made, "collections") == []
            for shard in ("shard1", "shard2"):
                assert made.members[shard].node.store.collection(NAMESPACE) is None
            assert not (await made.ask("shard1", drop))["dropped"]
            assert made.routing is not None
            stale = made.versioned(
                {"insert": "test", "documents": [{"_id": 1, "id": "0"}]}, made.routing.shard_version("shard1")
            )
            assert await refused(made.ask("shard1", stale, "test")) == Code.StaleConfig
            await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            await made.refresh()
            assert made.epoch != old
            await made.insert("2")
            assert sorted(await made.visible()) == ["2"]

    run(test)


def test_a_dropped_database_takes_its_collections_along() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("1")
            await made.ask("shard1", {"insert": "plain", "documents": [{"_id": 1}]}, "test")
            (database,) = await rows(made, "databases")
            drop = drop_database("test", DatabaseVersion.from_document(database["version"]))
            assert (await made.ask("shard1", drop))["dropped"]
            assert await rows(made, "databases") == []
            assert made.members["shard1"].node.store.namespaces("test") == []
            assert not (await made.ask("shard1", drop))["dropped"]

    run(test)


def test_a_shard_is_removed_once_it_is_empty() -> None:
    async def test() -> None:
        async with cluster() as made:
            started = await made.ask("config", requests.remove_shard("shard2"))
            assert started["state"] == "started"
            done = await made.ask("config", requests.remove_shard("shard2"))
            assert done["state"] == "completed"
            assert await refused(made.ask("config", requests.remove_shard("shard2"))) == Code.ShardNotFound
            assert await refused(made.ask("config", requests.remove_shard("shard1"))) == Code.IllegalOperation

    run(test)


def test_a_shard_with_chunks_or_databases_is_drained_first() -> None:
    async def test() -> None:
        async with cluster() as made:
            started = await made.ask("config", requests.remove_shard("shard1"))
            assert started["state"] == "started"
            assert list(started)[:5] == ["msg", "state", "shard", "note", "dbsToMove"]
            ongoing = await made.ask("config", requests.remove_shard("shard1"))
            assert ongoing["state"] == "ongoing"
            assert ongoing["remaining"] == {"chunks": 1, "dbs": 1, "jumboChunks": 0}
            assert ongoing["dbsToMove"] == ["test"]
            assert list(ongoing)[:5] == ["msg", "state", "remaining", "note", "dbsToMove"]
            await made.refresh()
            flag = requests.set_jumbo(NAMESPACE, made.epoch, made.chunk("0").range, jumbo=True)
            await made.ask("config", flag)
            left = (await made.ask("config", requests.remove_shard("shard1")))["remaining"]
            assert left == {"chunks": 1, "dbs": 1, "jumboChunks": 1}
            assert [row.get("draining") for row in await rows(made, "shards")] == [True, None]

    run(test)


def test_leases_pings_and_the_changelog_through_the_wire() -> None:
    async def test() -> None:
        async with cluster() as made:
            first = await made.ask("config", requests.lease("balancer", "acquire", "r1", ttl_ms=60_000))
            second = await made.ask("config", requests.lease("balancer", "acquire", "r2", ttl_ms=60_000))
            assert (first["granted"], second["granted"], second["holder"]) == (True, False, "r1")
            assert (await rows(made, "locks"))[0]["state"] == 2
            for up in (1, 2):
                await made.ask("config", requests.mongos_ping("r1:1", up_seconds=up, waiting=True, version="6.0.5"))
            (router,) = await rows(made, "mongos")
            assert (router["_id"], router["up"], router["waiting"]) == ("r1:1", 2, True)
            assert "cql" not in router
            address = {"address": "127.0.0.1", "port": 9042, "hostId": "x"}
            ping = requests.mongos_ping("r1:1", up_seconds=3, waiting=True, version="6.0.5", cql=address)
            await made.ask("config", ping)
            assert (await rows(made, "mongos"))[0]["cql"] == address
            what = [row["what"] for row in await rows(made, "changelog")]
            assert {
                "addShard",
                "enableSharding",
                "shardCollection.start",
                "shardCollection.end",
                "shardCollection",
            } <= set(what)

    run(test)


def test_the_steps_of_a_split_and_a_move_are_in_the_changelog() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("1")
            await made.split("1")
            await made.move("1", "shard2")
            await made.settled()
            what = [row["what"] for row in await rows(made, "changelog")]
            assert {"split", "moveChunk.start", "moveChunk.commit", "moveChunk.from", "moveChunk.to"} <= set(what)

    run(test)


def test_the_changelog_tells_how_long_a_donor_was_in_each_state() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("1")
            await made.split("1")
            await made.move("1", "shard2")
            await made.settled()
            (told,) = [row["details"] for row in await rows(made, "changelog") if row["what"] == "moveChunk.from"]
            assert list(told["milliseconds"]) == [
                "starting", "preparing", "cloning", "catching_up", "critical", "handing_over", "announcing",
                "committing", "deciding",
            ]  # fmt: skip

    run(test)


def test_sharding_needs_a_shard_and_a_partitioned_database() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            await made.ask("config", requests.create_database("plain"))
            shard = requests.shard_collection("plain.c", {"a": 1}, False)
            assert await refused(made.ask("shard2", shard)) == Code.IllegalOperation
            assert await refused(made.ask("shard1", shard)) == Code.StaleDbVersion
            assert await refused(made.ask("config", requests.enable_sharding("x", "nowhere"))) == Code.ShardNotFound
            empty = await Member(made.network, "empty", ClusterRole.CONFIG, open_engine("inMemory", "")).start()
            made.members["empty"] = empty
            assert await refused(made.ask("empty", requests.create_database("x"))) == Code.ShardNotFound

    run(test)


def test_a_collection_with_documents_needs_an_index_that_begins_with_the_key() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            shard = requests.shard_collection("test.c", {"a": 1, "b": 1}, False)
            await made.ask("shard1", {"insert": "c", "documents": [{"_id": 1}]}, "test")
            assert await refused(made.ask("shard1", shard)) == Code.InvalidOptions
            index = {"createIndexes": "c", "indexes": [{"key": {"a": 1, "b": 1, "c": -1}, "name": "abc"}]}
            await made.ask("shard1", index, "test")
            assert (await made.ask("shard1", shard))["collectionsharded"] == "test.c"
            assert (await made.ask("shard1", shard))["collectionsharded"] == "test.c"
            other = requests.shard_collection("test.c", {"a": 1}, False)
            assert await refused(made.ask("shard1", other)) == Code.AlreadyInitialized
            check = {"checkShardingIndex": "test.c", "keyPattern": {"a": 1}}
            assert (await made.ask("shard1", check))["ok"] == 1
            assert await refused(made.ask("shard1", check | {"keyPattern": {"z": 1}})) == Code.IndexNotFound

    run(test)


def test_a_unique_index_that_the_key_does_not_lead_refuses_sharding() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            index = {"createIndexes": "c", "indexes": [{"key": {"u": 1}, "name": "u", "unique": True}]}
            await made.ask("shard1", index, "test")
            code = await refused(made.ask("shard1", requests.shard_collection("test.c", {"a": 1}, False)))
            assert code == Code.InvalidOptions
            assert (await made.ask("shard1", requests.shard_collection("test.c", {"u": 1}, True)))["ok"] == 1

    run(test)


def test_commits_for_another_incarnation_or_shard_are_refused() -> None:
    async def test() -> None:
        async with cluster() as made:
            chunk = made.chunk("1")
            point = made.key.bound(b"\x11\x00\x00\x00\x02id\x00\x04\x00\x00\x00020\x00\x00")
            split = requests.commit_chunk_split(NAMESPACE, ObjectId(), "shard1", chunk.range, [point])
            assert await refused(made.ask("config", split)) == Code.StaleEpoch
            wrong = requests.commit_chunk_split(NAMESPACE, made.epoch, "shard2", chunk.range, [point])
            assert await refused(made.ask("config", wrong)) == Code.ConflictingOperationInProgress
            move = requests.commit_chunk_migration(
                NAMESPACE, made.epoch, chunk.range, chunk.lastmod, "shard1", "nowhere"
            )
            assert await refused(made.ask("config", move)) == Code.ShardNotFound
            assert made.routing is not None
            assert made.routing.database is not None
            other = requests.commit_shard_collection(
                NAMESPACE, {"id": 1}, False, Binary(bytes(16), 4), "shard1", made.routing.database
            )
            assert await refused(made.ask("config", other)) == Code.AlreadyInitialized

    run(test)


def test_split_points_follow_the_ladder_on_a_real_shard() -> None:
    async def test() -> None:
        async with cluster() as made:
            documents = [{"_id": str(n), "id": str(n), "text": "x" * 60} for n in range(100)]
            await made.write({"insert": "test", "documents": documents}, "0")

            async def ask(value: str, target: int, **options: Any) -> list[str]:
                command = requests.split_vector(NAMESPACE, {"id": 1}, made.chunk(value).range, target_bytes=target)
                reply = await made.ask("shard1", {**command, **options})
                return [row["id"] for row in reply["splitKeys"]]

            assert await ask("5", 1024) == ["1"]
            assert await ask("5", 1_000_000) == []
            await made.split("1")
            assert await ask("5", 4096) == ["99"]
            await made.split("50")
            assert await ask("3", 2048) == ["19", "28", "37", "46"]
            median = requests.split_vector(NAMESPACE, {"id": 1}, made.chunk("3").range, force=True)
            assert (await made.ask("shard1", median))["splitKeys"] == [{"id": "3"}]
            empty = await made.ask("shard2", {"splitVector": "test.none", "keyPattern": {"id": 1}, "force": True})
            assert empty["splitKeys"] == []

    run(test)


def test_get_shard_version_shows_the_shards_own_view() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.insert("1")
            await made.split("1")
            await made.move("1", "shard2")
            reply = await made.ask("shard1", {"getShardVersion": NAMESPACE, "fullMetadata": True})
            assert (str(reply["mine"]), str(reply["global"])) == ("Timestamp(2, 1)", "Timestamp(2, 1)")
            assert len(reply["metadata"]["chunks"]) == 1
            assert ConfigServer in made.members["config"].node.parts

    run(test)
