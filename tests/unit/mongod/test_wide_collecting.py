"""Tombstones, expired columns and what deletions hide go when their time has come, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from bson.int64 import Int64

from docstore.collection.rows import stored_cells
from docstore.node.wide.collecting import Collector
from tests.unit.mongod.wide_columns import WideNode

FAMILY = {"createColumnFamily": "F", "compareWith": "UTF8Type", "gcGraceSeconds": 100}
SUPER = {**FAMILY, "createColumnFamily": "S", "columnType": "Super", "compareSubcolumnsWith": "UTF8Type"}


Pass = Callable[[], Awaitable[None]]
Story = Callable[[WideNode, list[float], Pass], Awaitable[None]]


def told(story: Story, *, replicated: bool) -> None:
    async def run() -> None:
        node = WideNode(replicated=replicated)
        now = [1_000_000.0]
        node.node.wide._wall_clock = lambda: now[0]
        await node.begin(FAMILY, SUPER)
        await story(node, now, Collector(node.node).run_pass)
        for name in ("F", "S"):
            collection = node.node.store.collection(f"ks.{name}")
            assert collection is not None
            assert node.node.store.validate(collection).errors == []

    asyncio.run(asyncio.wait_for(run(), 30))


def kept(node: WideNode, name: str = "F") -> int:
    collection = node.node.store.collection(f"ks.{name}")
    assert collection is not None
    found = len(list(stored_cells(node.node.engine, collection)))
    assert found == collection.count
    return found


@pytest.mark.parametrize("replicated", [False, True])
def test_a_tombstone_outlives_the_grace_period(replicated: bool) -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        await node.insert("F", "k", "a", "1", 1)
        await node.insert("F", "k", "b", "1", 1)
        await node.insert("F", "l", "c", "1", 1, ttl=50)
        await node.wide({"wcRemove": "F", "key": "k", "column": "a"})
        for seconds, left in ((0, 3), (100, 3), (1, 2), (50, 1)):
            now[0] += seconds
            await run_pass()
            assert kept(node) == left
        assert await node.names("F", "k") == ["b"]

    told(story, replicated=replicated)


def test_a_deletion_of_a_row_goes_after_what_it_hides() -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        for name in "abc":
            await node.insert("F", "k", name, "1", 5)
        await node.insert("F", "k", "d", "1", 7)
        await node.wide({"wcRemove": "F", "key": "k", "timestamp": Int64(6)})
        await run_pass()
        assert kept(node) == 2
        now[0] += 101
        await node.insert("F", "k", "late", "1", 4)
        await run_pass()
        assert kept(node) == 2
        assert await node.names("F", "k") == ["d"]
        await run_pass()
        assert kept(node) == 1
        await node.insert("F", "k", "late", "1", 4)
        assert await node.names("F", "k") == ["d", "late"]

    told(story, replicated=True)


def test_a_deletion_of_a_super_column_goes_likewise() -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        for sub in "ab":
            await node.insert("S", "k", sub, "1", 5, superColumn="s")
            await node.insert("S", "k", sub, "1", 5, superColumn="t")
        await node.wide({"wcRemove": "S", "key": "k", "superColumn": "s", "timestamp": Int64(5)})
        await run_pass()
        assert kept(node, "S") == 3
        now[0] += 101
        await run_pass()
        assert kept(node, "S") == 2
        assert [found["name"] for found in await node.slice("S", "k")] == ["t"]

    told(story, replicated=False)


def test_a_large_row_is_looked_through_in_slices() -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        mutations = [{"key": "k", "columnFamily": "F", "insert": {"name": f"{i:05}", "value": ""}} for i in range(1500)]
        await node.wide({"wcBatchMutate": 1, "mutations": mutations})
        await node.wide({"wcRemove": "F", "key": "k"})
        node.hurry()
        await run_pass()
        assert kept(node) == 1
        now[0] += 101
        await run_pass()
        assert kept(node) == 0

    told(story, replicated=False)
