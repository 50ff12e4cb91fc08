"""Indexes of a sharded collection: uniqueness that one shard can see to, and one that serves the shard key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from docstore.errors import Code, CommandError
from tests.unit.migration.local_cluster import Cluster


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """`test.test` sharded by {id: 1}, with a document; `test.plain` is not sharded."""
    made = await Cluster().build()
    try:
        await made.insert("0")
        await made.ask("shard1", {"insert": "plain", "documents": [{"_id": 1}]}, "test")
        yield made
    finally:
        await made.stop()


async def code_of(made: Cluster, command: dict[str, Any]) -> int:
    """Of the refusal, 0 where there is none."""
    try:
        await made.ask("shard1", command, "test")
    except CommandError as error:
        return error.code
    return 0


def unique(*paths: str, **more: Any) -> dict[str, Any]:
    return {"key": dict.fromkeys(paths, 1), "name": "_".join(paths), "unique": True, **more}


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (unique("x"), Code.CannotCreateIndex),
        (unique("x", "id"), Code.CannotCreateIndex),
        (unique("id", "x"), 0),
        (unique("_id", "x"), 0),
        ({"key": {"x": 1}, "name": "x"}, 0),
    ],
)
def test_a_unique_index_begins_with_the_shard_key(index: dict[str, Any], expected: int) -> None:
    async def test() -> None:
        async with cluster() as made:
            assert await code_of(made, {"createIndexes": "test", "indexes": [index]}) == expected
            assert await code_of(made, {"createIndexes": "plain", "indexes": [index]}) == 0
            listed = await made.ask("shard1", {"listIndexes": "test"}, "test")
            names = [row["name"] for row in listed["cursor"]["firstBatch"]]
            assert (index["name"] in names) == (not expected)

    asyncio.run(test())


def test_the_message_of_a_unique_index_that_is_refused_names_both_patterns() -> None:
    async def test() -> None:
        async with cluster() as made:
            with pytest.raises(CommandError, match=r"over { x: 1 } with shard key pattern { id: 1 }"):
                await made.ask("shard1", {"createIndexes": "test", "indexes": [unique("x")]}, "test")

    asyncio.run(test())


@pytest.mark.parametrize("chosen", ["id_1", {"id": 1}, ["x", "id_1"]])
def test_the_only_index_that_serves_the_shard_key_is_not_dropped(chosen: Any) -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", {"createIndexes": "test", "indexes": [{"key": {"x": 1}, "name": "x"}]}, "test")
            command = {"dropIndexes": "test", "index": chosen}
            assert await code_of(made, command) == Code.CannotDropShardKeyIndex
            other = {"key": {"id": 1, "y": 1}, "name": "other"}
            await made.ask("shard1", {"createIndexes": "test", "indexes": [other]}, "test")
            assert await code_of(made, command) == 0
            assert await code_of(made, {"dropIndexes": "test", "index": "other"}) == Code.CannotDropShardKeyIndex

    asyncio.run(test())


def test_all_indexes_are_dropped_but_those_that_serve_the_shard_key() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", {"createIndexes": "test", "indexes": [{"key": {"x": 1}, "name": "x"}]}, "test")
            assert await code_of(made, {"dropIndexes": "test", "index": "*"}) == 0
            listed = await made.ask("shard1", {"listIndexes": "test"}, "test")
            assert [row["name"] for row in listed["cursor"]["firstBatch"]] == ["_id_", "id_1"]

    asyncio.run(test())


def test_the_only_index_that_serves_the_shard_key_is_not_hidden() -> None:
    async def test() -> None:
        async with cluster() as made:
            hide = {"collMod": "test", "index": {"name": "id_1", "hidden": True}}
            assert await code_of(made, hide) == Code.InvalidOptions
            other = {"key": {"id": 1, "y": 1}, "name": "other"}
            await made.ask("shard1", {"createIndexes": "test", "indexes": [other]}, "test")
            assert await code_of(made, hide) == 0
            assert await code_of(made, {"dropIndexes": "test", "index": "other"}) == Code.CannotDropShardKeyIndex

    asyncio.run(test())
