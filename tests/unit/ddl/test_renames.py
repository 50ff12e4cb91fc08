"""Renaming beside shardCollection: one of the two comes first, and nothing is replaced on one shard only."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Any

import bson
import pytest

from docstore.errors import Code
from docstore.node.pipeline.map_reduce import TEMPORARY, UNFINISHED, merge_noted_outputs
from docstore.sharding import requests
from docstore.sharding.ddl.requests import drop_database
from docstore.sharding.routing import Routing
from tests.unit.ddl.test_drops import cluster, code_of, insert, rows, run, version_of
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, turns


def rename(made: Cluster, routing: Routing, target: Routing) -> dict[str, Any]:
    """As a router sends it that takes both for unsharded collections."""
    command = {"renameCollection": "test.made", "to": NAMESPACE, "dropTarget": True}
    command["toShardVersion"] = target.version().to_document()
    return made.versioned(command, routing.shard_version("shard1"))


def test_a_target_that_has_become_sharded_is_not_replaced() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            target, source = await made.routing_of(NAMESPACE), await made.routing_of("test.made")
            await insert(made, source, "shard1", "made")
            await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            assert await code_of(made.ask("shard1", rename(made, source, target))) == Code.StaleConfig
            await made.refresh()
            await made.insert("1")
            assert sorted(await made.visible()) == ["1"]
            assert made.members["shard1"].node.store.collection("test.made") is not None

    run(test)


def test_a_rename_waits_for_a_collection_that_is_being_sharded() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            target, source = await made.routing_of(NAMESPACE), await made.routing_of("test.made")
            await insert(made, source, "shard1", "made")
            held = made.network.held["_configsvrShardCollection"] = asyncio.Event()
            sharding = asyncio.ensure_future(made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False)))
            await made.network.comes("_configsvrShardCollection", to="config")
            renaming = asyncio.ensure_future(made.ask("shard1", rename(made, source, target)))
            await made.network.comes(next(iter(rename(made, source, target))), to="shard1")
            await turns()
            assert not renaming.done()
            held.set()
            await sharding
            assert await code_of(renaming) == Code.StaleConfig
            uuid = (await made.refresh()).collection
            collection = made.members["shard1"].node.store.collection(NAMESPACE)
            assert uuid is not None
            assert collection is not None
            assert collection.uuid.bytes == bytes(uuid.uuid)

    run(test)


RESULTS = f"{TEMPORARY}made"


async def with_results(made: Cluster, results: int = 1) -> Routing:
    """What a router knows, which has put the results of a map-reduce beside the collection that they are for."""
    target = await made.routing_of(NAMESPACE)
    await insert(made, target, "shard1")
    documents = [{"_id": n, "id": str(n), "value": n} for n in range(results)]
    for command in (
        {"create": RESULTS, "forOutput": True},
        {"insert": RESULTS, "documents": documents, "intoOutput": True},
    ):
        await made.ask("shard1", made.versioned(command, target.shard_version("shard1")), "test")
    return target


def merge_results(made: Cluster, target: Routing) -> dict[str, Any]:
    command = requests.merge_temporary("test", RESULTS, bypass=False)
    return made.versioned(command, target.shard_version("shard1"))


def left_by_merging(made: Cluster) -> list[str]:
    store = made.members["shard1"].node.store
    return [name for name in store.namespaces() if TEMPORARY in name or name == UNFINISHED]


async def shard(made: Cluster) -> None:
    """Shard the collection, which has documents."""
    target = await made.routing_of(NAMESPACE)
    command = {"createIndexes": "test", "indexes": [{"key": {"id": 1}, "name": "i"}]}
    await made.ask("shard1", made.versioned(command, target.shard_version("shard1")), "test")
    await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))


async def merged(made: Cluster) -> int:
    """How many results are in the collection."""
    return sum("value" in row for found in (await made.visible()).values() for row in found)


def test_results_are_not_merged_into_a_collection_that_has_become_sharded() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            target = await with_results(made)
            await shard(made)
            assert await code_of(made.ask("shard1", merge_results(made, target), "test")) == Code.StaleConfig
            assert await merged(made) == 0
            assert left_by_merging(made) == [f"test.{RESULTS}"]  # the router drops what it has made

    run(test)


def test_a_collection_that_becomes_sharded_while_results_are_merged_takes_no_more_of_them() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            target = await with_results(made, 2000)
            node = made.members["shard1"].node
            pause, sharded = node.scheduler.pause, False

            async def shard_now() -> None:
                nonlocal sharded
                if UNFINISHED in left_by_merging(made) and not sharded:
                    sharded = True
                    node.clock = time.monotonic
                    await shard(made)
                await pause()

            node.scheduler.pause = shard_now
            ticks = count(1000)
            node.clock = lambda: next(ticks) / 1000
            assert await code_of(made.ask("shard1", merge_results(made, target), "test")) == Code.StaleConfig
            assert 0 < await merged(made) < 2000
            assert left_by_merging(made) == []

    run(test)


def test_the_next_primary_does_not_merge_results_into_a_collection_that_has_become_sharded() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            target = await with_results(made)
            version = target.shard_version("shard1").to_document()
            node = made.members["shard1"].node
            note = {"_id": f"test.{RESULTS}", "into": NAMESPACE, "bypass": False, "version": version}
            with node.store.unit() as unit:
                unit.insert(node.store.create_collection(unit, UNFINISHED), bson.encode(note))
                unit.commit()
            await shard(made)
            await merge_noted_outputs(node)
            assert await merged(made) == 0
            assert left_by_merging(made) == []

    run(test)


def test_a_renamed_collection_is_the_one_that_is_sharded_afterwards() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            target, source = await made.routing_of(NAMESPACE), await made.routing_of("test.made")
            await insert(made, source, "shard1", "made")
            await made.ask("shard1", {"createIndexes": "made", "indexes": [{"key": {"id": 1}, "name": "i"}]}, "test")
            await made.ask("shard1", rename(made, source, target))
            await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            assert sorted(await made.visible()) == ["0"]

    run(test)


def test_a_rename_into_a_database_that_was_dropped_is_refused() -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            source, target = await made.routing_of("test.made"), await made.routing_of(NAMESPACE)
            await made.ask("shard1", drop_database("test", await version_of(made)))
            await made.ask("config", requests.enable_sharding("test", "shard1"))
            assert await code_of(made.ask("shard1", rename(made, source, target))) == Code.StaleDbVersion

    run(test)


def test_a_delayed_request_to_shard_a_collection_comes_to_nothing_after_its_drop() -> None:
    async def test() -> None:
        async with cluster() as made:
            database, uuid = await version_of(made), made.uuid
            await made.ask("shard1", {"_shardsvrDropCollection": NAMESPACE, "uuid": uuid})
            late = requests.commit_shard_collection(NAMESPACE, {"id": 1}, False, uuid, "shard1", database)
            assert await code_of(made.ask("config", late)) == Code.OperationFailed
            assert await rows(made, "config", "collections") == []

    run(test)


@pytest.mark.parametrize(
    "reached", ["_shardsvrParticipantBlock", "_shardsvrParticipantAct", "_configsvrShardCollection"]
)
def test_sharding_is_carried_on_by_the_next_primary(reached: str) -> None:
    async def test() -> None:
        async with cluster(shard=False) as made:
            killed = asyncio.Event()

            def lose(_address: str, name: str) -> bool:
                if name == reached and not killed.is_set():
                    made.members["shard1"].kill()
                    killed.set()
                    return True
                return False

            made.network.lose_reply = lose
            command = requests.shard_collection(NAMESPACE, {"id": 1}, False)
            sharding = asyncio.ensure_future(made.ask("shard1", command))
            await killed.wait()
            await asyncio.wait([sharding])
            assert sharding.exception() is not None
            await made.restart("shard1")
            assert (await made.ask("shard1", command))["collectionsharded"] == NAMESPACE
            await made.refresh()
            await made.insert("1")
            assert sorted(await made.visible()) == ["1"]

    run(test)
