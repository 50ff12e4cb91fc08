"""What stays held on a shard that is removed from its cluster, and what becomes of an operation that had it held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from docstore.node.upkeep import periodic
from docstore.sharding import requests
from docstore.sharding.ddl.operation import Blocks
from docstore.sharding.ddl.requests import drop_collection
from mongod.migration.upkeep.removal import RemovalWatch
from tests.unit.ddl.test_drops import code_of, nothing_is_left, run
from tests.unit.migration.local_cluster import NAMESPACE, Cluster

OPERATION = Binary(bytes(16), 4)
LOOK = ("config:1", "find")


@asynccontextmanager
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """Shard2 owns nothing, and an operation holds a collection there."""
    monkeypatch.setattr(RemovalWatch, "seconds", 0.01)
    monkeypatch.setattr(periodic, "_LOOK_SECONDS", 0.01)
    made = await Cluster().build()
    try:
        await made.ask("shard2", block(release=False))
        yield made
    finally:
        made.network.lose_reply = lambda _address, _name: False
        await made.stop()


def block(*, release: bool) -> dict[str, Any]:
    blocks = Blocks.EVERYTHING.value
    return {"_shardsvrParticipantBlock": NAMESPACE, "operation": OPERATION, "blocks": blocks, "release": release}


def is_held(made: Cluster) -> bool:
    return made.members["shard2"].shard.shard_filter.holds.any


async def looks(made: Cluster, count: int) -> None:
    """Return when a shard has asked so many times more whether it is one."""
    wanted = made.network.seen.count(LOOK) + count
    await made.network.until(lambda: made.network.seen.count(LOOK) >= wanted)


async def remove(made: Cluster) -> None:
    for _ in range(2):
        last = await made.ask("config", requests.remove_shard("shard2"))
    assert last["state"] == "completed"


async def is_let_go(made: Cluster) -> None:
    await made.network.until(lambda: not is_held(made))


def test_a_shard_that_was_removed_lets_go_for_good_of_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with held(monkeypatch) as made:
            await looks(made, 3)
            assert is_held(made)
            await remove(made)
            await is_let_go(made)
            assert await code_of(made.ask("shard2", block(release=False))) == Code.OperationFailed
            assert (await made.ask("config", requests.add_shard("shard2/shard2:1", "shard2")))["shardAdded"] == "shard2"

    run(test)


def test_what_is_held_stays_while_the_config_servers_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with held(monkeypatch) as made:
            made.network.lose_reply = lambda address, name: (address, name) == LOOK
            await remove(made)
            await looks(made, 3)
            assert is_held(made)
            made.network.lose_reply = lambda _address, _name: False
            await is_let_go(made)

    run(test)


def test_a_shard_is_added_again_only_when_nothing_is_held_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with held(monkeypatch) as made:
            made.network.lose_reply = lambda address, name: (address, name) == LOOK
            await remove(made)
            again = requests.add_shard("shard2/shard2:1", "shard2")
            with pytest.raises(CommandError, match="still holds something"):
                await made.ask("config", again)
            made.network.lose_reply = lambda _address, _name: False
            await is_let_go(made)
            await made.ask("config", again)

    run(test)


def test_what_a_shard_was_being_sent_when_it_was_removed_is_deleted_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The donor dies with the decision, and whoever takes the migration up finds no shard to tell it to."""
    monkeypatch.setattr(RemovalWatch, "seconds", 0.01)
    monkeypatch.setattr(periodic, "_LOOK_SECONDS", 0.01)

    async def test() -> None:
        made = await Cluster().build()
        try:
            await made.insert("1")
            made.network.held["_recvChunkCommit"] = asyncio.Event()
            moving = asyncio.ensure_future(made.move("1", "shard2"))
            await made.network.comes("_shardsvrMoveRange", to="shard1")
            await made.network.comes("_recvChunkCommit", to="shard2")
            made.members["shard1"].kill()
            shard = made.members["shard2"].shard
            await looks(made, 3)
            assert [each.pending for each in shard.records.deletions()] == [True]
            await remove(made)
            await made.network.until(lambda: not shard.records.deletions())
            assert shard.recipient.running is None
            stored = shard.node.store.collection(NAMESPACE)
            assert stored is not None
            assert stored.count == 0
            with pytest.raises(NetworkError):
                await moving
        finally:
            await made.stop()

    run(test)


def test_an_operation_that_has_no_way_back_goes_on_without_a_shard_that_has_let_it_go() -> None:
    async def test() -> None:
        made = await Cluster().build()
        try:
            await made.insert("1")
            held = made.network.held["_shardsvrParticipantAct"] = asyncio.Event()
            dropping = asyncio.ensure_future(made.ask("shard1", drop_collection(NAMESPACE, made.uuid)))
            await made.network.comes("_shardsvrParticipantAct", to="shard2")
            shard = made.members["shard2"].shard
            (standing,) = shard.shard_filter.holds.all_standing()
            shard.shard_filter.holds.release(shard.records, standing)
            held.set()
            assert (await dropping)["dropped"]
            assert made.members["shard1"].node.store.collection(NAMESPACE) is None
            await nothing_is_left(made)
        finally:
            await made.stop()

    run(test)


def test_an_operation_that_can_be_given_up_is_where_a_shard_has_let_it_go() -> None:
    async def test() -> None:
        made = await Cluster().build(shard=False)
        try:
            held = made.network.held["_shardsvrParticipantAct"] = asyncio.Event()
            command = requests.shard_collection(NAMESPACE, {"id": 1}, False)
            sharding = asyncio.ensure_future(made.ask("shard1", command))
            await made.network.comes("_shardsvrParticipantAct", to="shard1")
            shard = made.members["shard1"].shard
            (standing,) = shard.shard_filter.holds.all_standing()
            shard.shard_filter.holds.release(shard.records, standing)
            held.set()
            assert await code_of(sharding) == Code.OperationFailed
            assert (await made.routing_of(NAMESPACE)).collection is None
            await nothing_is_left(made)
        finally:
            await made.stop()

    run(test)
