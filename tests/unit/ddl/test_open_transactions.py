"""Transactions over two shards that meet changes of definitions, and moves, which wait for them on another shard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.errors import Code
from docstore.sharding.ddl.requests import drop_collection, drop_database, rename_collection
from mongod.migration.transaction_filter import MAX_MOVE_WAIT_SECONDS
from tests.unit.ddl.test_drops import cluster, code_of, run, version_of
from tests.unit.migration.local_cluster import NAMESPACE, Cluster

CHUNK: Any = SimpleNamespace(namespace=NAMESPACE, concerns=NAMESPACE.__eq__)
"""As a move of a chunk of the collection."""
REFUSED_SECONDS = 2.0
"""Far more than a transaction waits, far less than the 60 seconds that one may stay open."""


class Transaction:
    """One over both shards, as a router has it carried out."""

    def __init__(self, made: Cluster, number: int = 1) -> None:
        self._made = made
        self._fields = {
            "lsid": {"id": Binary(bytes([number]) * 16, 4)}, "txnNumber": Int64(number), "autocommit": False,
        }  # fmt: skip
        self._begun: set[str] = set()

    async def find(self, shard: str) -> dict[str, Any]:
        """Errors: those of the shard; TimeoutError where it waits."""
        routing = self._made.routing
        assert routing is not None
        first = {} if shard in self._begun else {"startTransaction": True}
        command = self._made.versioned({"find": "test", **self._fields, **first}, routing.shard_version(shard))
        reply = await asyncio.wait_for(self._made.ask(shard, command, "test"), REFUSED_SECONDS)
        self._begun.add(shard)
        return reply

    async def abort(self, shard: str) -> None:
        await self._made.ask(shard, {"abortTransaction": 1, **self._fields})


def after_the_move(made: Cluster) -> None:
    """Have all that begins from now on be later than the move that brought the chunks."""
    for name in ("shard1", "shard2"):
        oplog = made.members[name].node.store.oplog
        assert oplog is not None
        oplog.observe(int(time.time() + 1) << 32)


async def dropped(made: Cluster) -> dict[str, Any]:
    return drop_collection(NAMESPACE, made.uuid)


async def dropped_database(made: Cluster) -> dict[str, Any]:
    return drop_database("test", await version_of(made))


async def renamed(made: Cluster) -> dict[str, Any]:
    target = await made.routing_of("test.other")
    return rename_collection(await made.refresh(), target, drop_target=False)


CHANGES = [dropped, dropped_database, renamed]


@pytest.mark.parametrize("change", CHANGES)
def test_a_transaction_is_refused_by_a_change_that_waits_for_it_on_another_shard(change: Callable[..., Any]) -> None:
    async def test() -> None:
        async with cluster() as made:
            transaction = Transaction(made)
            await transaction.find("shard1")
            changing = asyncio.ensure_future(made.ask("shard1", await change(made)))
            filters = [made.members[name].shard.shard_filter for name in ("shard1", "shard2")]
            await made.network.until(lambda: all(each.holds.sections for each in filters))
            assert await code_of(transaction.find("shard2")) == Code.LockTimeout
            assert not changing.done()
            await transaction.abort("shard1")
            await asyncio.wait_for(changing, REFUSED_SECONDS)

    run(test)


def test_a_transaction_is_refused_in_a_database_that_is_held() -> None:
    """It has used none of the database on that shard, nor the collection on any."""

    async def test() -> None:
        async with cluster() as made:
            transaction = Transaction(made)
            await transaction.find("shard1")
            changing = asyncio.ensure_future(made.ask("shard1", await dropped_database(made)))
            shard_filter = made.members["shard2"].shard.shard_filter
            await made.network.until(lambda: shard_filter.holds.sections)
            began = time.monotonic()
            assert await code_of(transaction.find("shard2")) == Code.LockTimeout
            assert time.monotonic() - began < REFUSED_SECONDS
            await transaction.abort("shard1")
            await changing

    run(test)


def test_two_moves_and_two_transactions_do_not_wait_for_each_other() -> None:
    """A move waits for a transaction on its shard, which waits on the other one for a move, and so round."""

    async def test() -> None:
        async with cluster() as made:
            after_the_move(made)
            first, second = Transaction(made, 1), Transaction(made, 2)
            await first.find("shard1")
            await second.find("shard2")
            for name in ("shard1", "shard2"):
                made.members[name].shard.shard_filter.statements.hold_back(CHUNK)
            began = time.monotonic()
            codes = await asyncio.gather(code_of(first.find("shard2")), code_of(second.find("shard1")))
            assert set(codes) == {Code.LockTimeout}
            assert time.monotonic() - began < MAX_MOVE_WAIT_SECONDS + REFUSED_SECONDS
            await first.find("shard1")
            for name in ("shard1", "shard2"):
                made.members[name].shard.shard_filter.statements.let_begin(CHUNK)
            for transaction, name in ((first, "shard1"), (second, "shard2")):
                await transaction.abort(name)

    run(test)


def test_a_short_hold_is_waited_for() -> None:
    async def test() -> None:
        async with cluster() as made:
            after_the_move(made)
            transaction = Transaction(made)
            statements = made.members["shard2"].shard.shard_filter.statements
            statements.hold_back(CHUNK)
            reading = asyncio.ensure_future(transaction.find("shard2"))
            await made.network.comes("find", to="shard2")
            statements.let_begin(CHUNK)
            assert [each["_id"] for each in (await reading)["cursor"]["firstBatch"]] == ["7"]
            await transaction.abort("shard2")

    run(test)
