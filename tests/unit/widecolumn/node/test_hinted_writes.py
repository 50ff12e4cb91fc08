"""Hints on the shard that carries them out: which are refused, and when one is acknowledged."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.widecolumn.model.hint_origin import OUTDATED
from docstore.widecolumn.node.keyspaces import wide_of
from tests.unit.widecolumn.node.wide_columns import WideNode

SECOND = 1_000_000
START = 1_700_000_000


class Shard:
    """A node with the column family F and the CQL table t, whose clock stands where it is put."""

    def __init__(self) -> None:
        self.local = WideNode(replicated=True)
        self.now = float(START)
        wide_of(self.local.node)._wall_clock = lambda: self.now

    async def begin(self) -> None:
        await self.local.begin({"createColumnFamily": "F", "gcGraceSeconds": 60})

    async def identity(self) -> Binary:
        described = await self.local.run({"describeKeyspace": 1}, "ks")
        found: Binary = described["columnFamilies"][0]["id"]
        return found

    async def hint(self, column: str, at: int, identity: Any = None) -> dict[str, Any]:
        origin = {"family": await self.identity() if identity is None else identity, "at": Int64(at)}
        command = {"wcInsert": "F", "key": "k", "column": column, "value": "v", "hint": origin}
        return await self.local.reply(command, "ks")

    async def names(self) -> list[Any]:
        return await self.local.names("F", "k")


def run(test: Any) -> None:
    async def whole() -> None:
        shard = Shard()
        await shard.begin()
        await test(shard)

    asyncio.run(whole())


def test_a_hint_is_carried_out_where_nothing_has_changed() -> None:
    async def test(shard: Shard) -> None:
        assert (await shard.hint("a", START * SECOND))["ok"] == 1
        assert await shard.names() == ["a"]

    run(test)


def test_a_hint_from_before_a_truncation_is_outdated() -> None:
    async def test(shard: Shard) -> None:
        kept = START * SECOND
        shard.now += 1
        await shard.local.wide({"wcTruncate": "F"})
        reply = await shard.hint("a", kept)
        assert (reply["ok"], OUTDATED in reply) == (0, True)
        assert await shard.names() == []
        shard.now += 1
        assert (await shard.hint("b", int(shard.now * SECOND)))["ok"] == 1
        assert await shard.names() == ["b"]

    run(test)


def test_a_hint_is_of_the_column_family_that_it_was_kept_for() -> None:
    async def test(shard: Shard) -> None:
        before = await shard.identity()
        await shard.local.wide({"dropColumnFamily": "F"})
        await shard.local.wide({"createColumnFamily": "F"})
        reply = await shard.hint("a", START * SECOND, before)
        assert (reply["ok"], OUTDATED in reply) == (0, True)
        assert await shard.names() == []

    run(test)


@pytest.mark.parametrize(("age", "carried_out"), [(60, True), (61, False)])
def test_a_hint_lives_no_longer_than_tombstones(age: int, carried_out: bool) -> None:
    async def test(shard: Shard) -> None:
        shard.now += age
        reply = await shard.hint("a", START * SECOND)
        assert reply["ok"] == carried_out
        assert await shard.names() == (["a"] if carried_out else [])

    run(test)


def test_a_hint_is_acknowledged_by_a_majority() -> None:
    async def test(shard: Shard) -> None:
        concerns: list[Any] = []

        async def wait_write(_optime: Any, concern: Any, _deadline: Any) -> Any:
            concerns.append(concern.w)
            return {"errmsg": "waiting for replication timed out"} if len(concerns) == 1 else None

        shard.local.node.replication.wait_write = wait_write  # type: ignore[method-assign]
        reply = await shard.hint("a", START * SECOND)
        assert (reply["ok"], reply.get("wcException")) == (0, "TimedOutException")
        assert (await shard.hint("a", START * SECOND))["ok"] == 1
        assert concerns == ["majority", "majority"]

    run(test)


def test_a_malformed_origin_is_refused() -> None:
    async def test(shard: Shard) -> None:
        reply = await shard.hint("a", START * SECOND, "not an identity")
        assert (reply["ok"], reply["code"]) == (0, 2)

    run(test)
