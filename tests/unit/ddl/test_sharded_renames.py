"""Renaming where one of the names is sharded: the same on all shards, whoever crashes meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from docstore.errors import Code
from docstore.sharding import requests
from docstore.sharding.ddl.requests import rename_collection
from docstore.sharding.routing import Routing
from tests.unit.ddl.test_drops import (
    SHARDS,
    code_of,
    done_though_killed,
    insert,
    rows,
    run,
)
from tests.unit.migration.local_cluster import NAMESPACE, Cluster

TARGET = "test.target"
_TOLD = frozenset(("_shardsvrParticipantBlock", "_shardsvrParticipantAct", "_configsvrCommitRename"))


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Ids below "5" of the sharded collection on shard1, the others on shard2."""
    made = await Cluster().build()
    try:
        for value in ("1", "7"):
            await made.insert(value)
        await made.split("5")
        await made.move("5", "shard2")
        await made.settled()
        yield made
    finally:
        made.network.lose_reply = lambda _address, _name: False
        await made.stop()


async def renaming(made: Cluster, source: str = NAMESPACE, target: str = TARGET, *, over: bool = False) -> Any:
    return rename_collection(await made.routing_of(source), await made.routing_of(target), drop_target=over)


async def seen(made: Cluster, namespace: str) -> list[str]:
    """The ids of all documents, as a router with fresh routing finds them."""
    routing = await made.routing_of(namespace)
    assert routing.collection is not None
    found = []
    for shard in sorted(routing.collection.chunks.shards):
        command = made.versioned({"find": namespace.partition(".")[2]}, routing.shard_version(shard))
        found += (await made.ask(shard, command, "test"))["cursor"]["firstBatch"]
    return sorted(row["id"] for row in found)


async def check_renamed(made: Cluster, old: Routing, target: Routing) -> None:
    assert old.collection is not None
    assert (await made.routing_of(NAMESPACE)).collection is None
    fresh = (await made.routing_of(TARGET)).collection
    assert fresh is not None
    assert fresh.uuid == old.collection.uuid
    assert fresh.epoch != old.collection.epoch
    assert await seen(made, TARGET) == ["1", "7"]
    chunks = await rows(made, "config", "chunks")
    assert {(row["ns"], bytes(row["uuid"])) for row in chunks} == {(TARGET, bytes(fresh.uuid))}
    for shard in SHARDS:
        assert made.members[shard].node.store.collection(NAMESPACE) is None
        assert await code_of(insert(made, old, shard)) == Code.StaleConfig
        if target.collection is not None:
            assert await code_of(insert(made, target, shard, "target")) == Code.StaleConfig


async def shard_target(made: Cluster) -> Routing:
    await made.ask("shard1", requests.shard_collection(TARGET, {"other": 1}, False))
    routing = await made.routing_of(TARGET)
    command = {"insert": "target", "documents": [{"id": "old", "other": 1}]}
    await made.ask("shard1", made.versioned(command, routing.shard_version("shard1")), "test")
    return routing


@pytest.mark.parametrize(("victim", "number"), list(itertools.product((*SHARDS, "config"), range(7))))
def test_a_rename_is_carried_to_its_end_whoever_is_killed_at_whatever_message(victim: str, number: int) -> None:
    async def test() -> None:
        async with cluster() as made:
            target = await shard_target(made)
            old = await made.routing_of(NAMESPACE)
            rename = await renaming(made, over=True)
            assert (await done_though_killed(made, rename, victim, number, _TOLD))["renamed"]
            await check_renamed(made, old, target)
            await made.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            await made.refresh()
            await made.insert("3")
            assert sorted(await made.visible()) == ["3"]

    run(test)


def test_chunks_of_a_renamed_collection_move_and_what_was_to_be_deleted_of_it_is_deleted() -> None:
    async def test() -> None:
        async with cluster() as made:
            made.members["shard2"].tunables.orphan_delay = 3600.0
            await made.move("5", "shard1")
            assert len(made.members["shard2"].shard.records.deletions()) == 1
            target, old = await made.routing_of(TARGET), await made.routing_of(NAMESPACE)
            await made.ask("shard1", await renaming(made))
            await check_renamed(made, old, target)
            made.members["shard2"].tunables.orphan_delay = 0.0
            made.members["shard2"].shard.deleter.changed()
            await made.settled()
            stored = await made.ask("shard2", {"find": "target"}, "test")
            assert stored["cursor"]["firstBatch"] == []
            routing = await made.routing_of(TARGET)
            assert routing.collection is not None
            chunk = routing.collection.chunks.chunk_at(routing.collection.key.max.key[:-1])
            await made.ask("shard1", requests.move_range(TARGET, chunk.range, routing.version(), "shard2"))
            assert await seen(made, TARGET) == ["1", "7"]

    run(test)


def test_what_is_not_sharded_takes_the_place_of_what_is_and_the_other_way_round() -> None:
    async def test() -> None:
        async with cluster() as made:
            plain = await made.routing_of("test.plain")
            await insert(made, plain, "shard1", "plain")
            assert await code_of(made.ask("shard1", await renaming(made, target="test.plain"))) == Code.NamespaceExists
            await made.ask("shard1", await renaming(made, target="test.plain", over=True))
            assert await seen(made, "test.plain") == ["1", "7"]
            await insert(made, await made.routing_of("test.new"), "shard1", "new")
            await made.ask("shard1", await renaming(made, "test.new", "test.plain", over=True))
            fresh = await made.routing_of("test.plain")
            assert fresh.collection is None
            found = await made.ask("shard1", made.versioned({"find": "plain"}, fresh.shard_version("shard1")), "test")
            assert [row["id"] for row in found["cursor"]["firstBatch"]] == ["0"]
            assert made.members["shard2"].node.store.namespaces("test") == []
            assert await rows(made, "config", "chunks") == []

    run(test)


def test_what_cannot_be_renamed_is_refused() -> None:
    async def test() -> None:
        async with cluster() as made:
            stale = await renaming(made)
            await shard_target(made)
            assert await code_of(made.ask("shard1", stale)) == Code.StaleConfig
            assert await code_of(made.ask("shard1", await renaming(made))) == Code.NamespaceExists
            await made.ask("shard1", {"create": "view", "viewOn": "test", "pipeline": []}, "test")
            to_view = await renaming(made, target="test.view", over=True)
            assert await code_of(made.ask("shard1", to_view)) == Code.NamespaceExists
            missing = await renaming(made, "test.missing", TARGET, over=True)
            assert await code_of(made.ask("shard1", missing)) == Code.NamespaceNotFound
            assert await code_of(made.ask("shard2", await renaming(made))) == Code.StaleDbVersion
            assert await seen(made, NAMESPACE) == ["1", "7"]
            assert await seen(made, TARGET) == ["old"]

    run(test)
