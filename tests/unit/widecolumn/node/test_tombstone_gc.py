"""Tombstones, expired columns and what deletions hide go when their time has come, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.widecolumn.model.column_families import DEFAULT_PARTITIONER
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.rows import row_size, stored_cells
from docstore.widecolumn.node.tombstone_gc import TombstoneCollector
from tests.unit.widecolumn.node.wide_columns import WideNode

FAMILY = {"createColumnFamily": "F", "compareWith": "UTF8Type", "gcGraceSeconds": 100}
INT_ONE = b"\0\0\0\1"
SUPER = {**FAMILY, "createColumnFamily": "S", "columnType": "Super", "compareSubcolumnsWith": "UTF8Type"}


Pass = Callable[[], Awaitable[None]]
Story = Callable[[WideNode, list[float], Pass], Awaitable[None]]


def told(story: Story, *, replicated: bool) -> None:
    async def run() -> None:
        node = WideNode(replicated=replicated)
        now = [1_000_000.0]
        wide_of(node.node)._wall_clock = lambda: now[0]
        await node.begin(FAMILY, SUPER)
        await story(node, now, TombstoneCollector(node.node).run_pass)
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


def rows_counted(node: WideNode, name: str, key: bytes) -> int:
    collection = node.node.store.collection(f"ks.{name}")
    assert collection is not None
    return row_size(node.node.engine, collection, encode_row_key(DEFAULT_PARTITIONER, key)).rows


def test_counts_of_super_columns_fall_when_they_are_collected() -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        for name in "abc":
            for sub in "xy":
                await node.insert("S", "k", sub, "1", 5, superColumn=name)
        assert rows_counted(node, "S", b"k") == 3
        await node.wide({"wcRemove": "S", "key": "k", "superColumn": "b", "timestamp": Int64(5)})
        await node.wide({"wcRemove": "S", "key": "k", "superColumn": "c", "column": "x", "timestamp": Int64(5)})
        await run_pass()
        assert rows_counted(node, "S", b"k") == 2
        now[0] += 101
        await run_pass()
        assert rows_counted(node, "S", b"k") == 2
        await node.insert("S", "k", "x", "1", 9, superColumn="b")
        await run_pass()
        assert rows_counted(node, "S", b"k") == 3

    told(story, replicated=True)


def test_ranges_of_a_table_are_collected_with_what_they_hide() -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        async def cql(text: str) -> list[list[Any]]:
            rows: list[list[Any]] = (await node.wide({"cql": text})).get("rows", [])
            return rows

        await cql("CREATE TABLE T (a int, b int, c int, s int STATIC, v int, PRIMARY KEY (a, b, c)) "
                  "WITH gc_grace_seconds = 100")  # fmt: skip
        await cql("INSERT INTO t (a, s) VALUES (1, 7) USING TIMESTAMP 5")
        for b in range(4):
            for c in range(3):
                await cql(f"INSERT INTO t (a, b, c, v) VALUES (1, {b}, {c}, 0) USING TIMESTAMP 5")
        assert rows_counted(node, "t", INT_ONE) == 12
        whole = kept(node, "t")
        await cql("DELETE FROM t USING TIMESTAMP 6 WHERE a = 1 AND b = 1")
        await cql("DELETE FROM t USING TIMESTAMP 6 WHERE a = 1 AND b > 2")
        await cql("DELETE FROM t USING TIMESTAMP 4 WHERE a = 1 AND b < 2")
        await cql("DELETE FROM t USING TIMESTAMP 7 WHERE a = 1 AND b = 2 AND c = 0")
        await cql("INSERT INTO t (a, b, c, v) VALUES (1, 3, 9, 9) USING TIMESTAMP 9")
        found = await cql("SELECT b, c, v, s FROM t WHERE a = 1")
        await run_pass()
        assert await cql("SELECT b, c, v, s FROM t WHERE a = 1") == found
        assert rows_counted(node, "t", INT_ONE) == len(found) == 6
        assert kept(node, "t") == whole - 7 * 2 + 4 + 2
        now[0] += 101
        await run_pass()
        assert kept(node, "t") == whole - 7 * 2 + 2
        assert await cql("SELECT b, c, v, s FROM t WHERE a = 1") == found
        await cql("DELETE FROM t USING TIMESTAMP 20 WHERE a = 1")
        await run_pass()
        assert rows_counted(node, "t", INT_ONE) == 0
        assert kept(node, "t") == 1

    told(story, replicated=True)


def test_deletions_of_collections_hide_their_own_elements_alone() -> None:
    async def story(node: WideNode, now: list[float], run_pass: Pass) -> None:
        async def cql(text: str) -> list[list[Any]]:
            rows: list[list[Any]] = (await node.wide({"cql": text})).get("rows", [])
            return rows

        await cql("CREATE TABLE t (a int, b int, s set<int>, m map<int, int>, st set<int> STATIC, PRIMARY KEY (a, b)) "
                  "WITH gc_grace_seconds = 100")  # fmt: skip
        row = "WHERE a = 1 AND b = 1"
        await cql("UPDATE t USING TIMESTAMP 5 SET st = st + {1, 2} WHERE a = 1")
        await cql(f"UPDATE t USING TIMESTAMP 5 SET s = s + {{1, 2}}, m = m + {{1: 1, 2: 2}} {row}")
        await cql("UPDATE t USING TIMESTAMP 9 SET st = {3} WHERE a = 1")
        await cql(f"UPDATE t USING TIMESTAMP 9 SET s = {{3}} {row}")
        await cql(f"UPDATE t USING TIMESTAMP 4 SET m = {{9: 9}} {row}")
        found = await cql("SELECT * FROM t")
        # `SELECT *` gives the static column, then the others by their names.
        assert found == [[1, 1, [3], [[1, 1], [2, 2], [9, 9]], [3]]]
        # Of each collection a deletion; of the sets one element lives, of the map all three.
        assert kept(node, "t") == 3 + 3 + 5 + 1
        await run_pass()
        assert kept(node, "t") == 3 + 1 + 1 + 3
        assert await cql("SELECT * FROM t") == found
        now[0] += 101
        await run_pass()
        assert kept(node, "t") == 5
        assert await cql("SELECT * FROM t") == found
        await cql(f"DELETE FROM t USING TIMESTAMP 20 {row}")
        await run_pass()
        assert kept(node, "t") == 2
        assert await cql("SELECT * FROM t") == [[1, None, [3], None, None]]

    told(story, replicated=True)
