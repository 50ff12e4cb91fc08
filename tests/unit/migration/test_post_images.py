"""A shard judges what every write makes of a document: its shard key stays where the shard owns it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.sharding import requests
from tests.unit.migration.local_cluster import NAMESPACE, Cluster

_NUMBERS = count(1)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Ids below "5" on shard1, the others on shard2."""
    made = await Cluster().build()
    try:
        rows = [{"_id": n, "id": str(n), "other": f"{9 - n}", "v": 0} for n in range(10)]
        await made.write({"insert": "test", "documents": rows}, "0")
        await made.split("5")
        await made.move("5", "shard2")
        await made.settled()
        yield made
    finally:
        await made.stop()


def session() -> dict[str, Any]:
    return {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(next(_NUMBERS))}


async def written(made: Cluster, command: dict[str, Any], key: str = "1") -> Code | dict[str, Any]:
    """The reply, or the code of the refusal."""
    try:
        return await made.write(command, key)
    except CommandError as error:
        return Code(error.code) if error.code in Code._value2member_map_ else error.code  # type: ignore[return-value]


def update(query: dict[str, Any], change: Any, **fields: Any) -> dict[str, Any]:
    return {"update": "test", "updates": [{"q": query, "u": change, **fields}]}


async def unharmed(made: Cluster) -> bool:
    """Whether every document is where its key is owned, each once."""
    visible = await made.visible()
    stored = [*await made.stored("shard1"), *await made.stored("shard2")]
    return len(stored) == len(visible) == sum(len(rows) for rows in visible.values()) == 10


AWAY = {
    "operator": {"$set": {"id": "7"}},
    "pipeline": [{"$set": {"id": "7"}}],
    "rename": {"$rename": {"other": "id"}},
    "replacement": {"id": "7", "v": 1},
    "maximum": {"$max": {"id": "7"}},
}


@pytest.mark.parametrize("form", sorted(AWAY))
@pytest.mark.parametrize("retryable", [True, False])
def test_no_form_of_update_gives_a_document_a_key_that_another_shard_owns(form: str, retryable: bool) -> None:
    async def test() -> None:
        async with cluster() as made:
            extra = session() if retryable else {}
            expected = Code.WouldChangeOwningShard if retryable else Code.IllegalOperation
            assert await written(made, {**update({"_id": 1, "id": "1"}, AWAY[form]), **extra}) == expected
            extra = session() if retryable else {}
            command = {"findAndModify": "test", "query": {"_id": 1, "id": "1"}, "update": AWAY[form], **extra}
            assert await written(made, command) == expected
            assert await unharmed(made)

    asyncio.run(test())


def test_an_update_by_id_alone_does_not_change_the_key() -> None:
    async def test() -> None:
        async with cluster() as made:
            for change in ({"$set": {"id": "7"}}, {"$set": {"id": "2"}}, [{"$set": {"id": "2"}}], {"id": "2"}):
                assert await written(made, {**update({"_id": 1}, change), **session()}) == 31025
            assert await written(made, update({"_id": 1}, {"$set": {"id": "1", "v": 1}})) == {
                "n": 1, "nModified": 1, **await optimes(made),
            }  # fmt: skip
            assert await unharmed(made)

    asyncio.run(test())


async def optimes(made: Cluster) -> dict[str, Any]:
    """What replies of writes carry besides the counts: taken from a write that changes nothing."""
    reply = await made.write(update({"_id": "absent"}, {"$set": {"v": 1}}), "1")
    return {name: value for name, value in reply.items() if name not in ("n", "nModified")}


def test_a_key_changes_within_its_shard_in_a_retryable_write_that_names_the_old_one() -> None:
    async def test() -> None:
        async with cluster() as made:
            reply = await written(made, {**update({"_id": 1, "id": "1"}, {"$set": {"id": "2x"}}), **session()})
            assert isinstance(reply, dict)
            assert (reply["n"], reply["nModified"]) == (1, 1)
            assert await made.stored("shard1") == ["0", "2", "2x", "3", "4"]
            assert await written(made, update({"id": "2x"}, {"$set": {"id": "1"}})) == Code.IllegalOperation
            assert await unharmed(made)

    asyncio.run(test())


def test_an_update_of_many_documents_changes_no_key() -> None:
    async def test() -> None:
        async with cluster() as made:
            for change in ({"$set": {"id": "2"}}, [{"$set": {"id": {"$concat": ["$id", "x"]}}}]):
                assert await written(made, update({"id": {"$lt": "5"}}, change, multi=True)) == Code.InvalidOptions
            assert await unharmed(made)

    asyncio.run(test())


@pytest.mark.parametrize("change", [{"$set": {"id": ["1"]}}, [{"$set": {"id": ["$id"]}}], {"id": ["1"]}])
def test_a_key_never_becomes_an_array(change: Any) -> None:
    async def test() -> None:
        async with cluster() as made:
            reply = await written(made, {**update({"_id": 1, "id": "1"}, change), **session()})
            assert reply == Code.NotSingleValueField
            assert await unharmed(made)

    asyncio.run(test())


@pytest.mark.parametrize(
    "change",
    [{"$setOnInsert": {"id": "7"}}, [{"$set": {"id": "7"}}], {"$set": {"id": "7"}}, {"id": "7"}],
)  # fmt: skip
def test_an_upsert_inserts_nothing_that_another_shard_owns(change: Any) -> None:
    async def test() -> None:
        async with cluster() as made:
            query = {"id": {"$in": ["4x"]}, "_id": 77}
            for extra, expected in ((session(), Code.WouldChangeOwningShard), ({}, Code.IllegalOperation)):
                assert await written(made, {**update(query, change, upsert=True), **extra}) == expected
            command = {"findAndModify": "test", "query": query, "update": change, "upsert": True, **session()}
            assert await written(made, command) == Code.WouldChangeOwningShard
            assert await unharmed(made)

    asyncio.run(test())


def test_a_time_that_the_shard_fills_in_is_no_key_of_another_shard() -> None:
    async def test() -> None:
        made = await Cluster().build()
        try:
            chunk, key = made.chunk("0"), made.key
            point = key.bound_of(bson.encode({"id": Timestamp(1, 1)}))
            command = requests.split_chunk(
                NAMESPACE, key.document(), chunk.range, [point], epoch=made.epoch, shard="shard1"
            )
            await made.ask("shard1", command)
            routing = await made.refresh()
            assert routing.collection is not None
            upper = routing.collection.chunks.chunk_at(point.key)
            await made.ask("shard1", requests.move_range(NAMESPACE, upper.range, routing.version(), "shard2"))
            await made.refresh()
            row = {"_id": 1, "id": Timestamp(0, 0)}
            assert await written(made, {"insert": "test", "documents": [row]}, "") == Code.WouldChangeOwningShard
            assert await made.visible() == {}
        finally:
            await made.stop()

    asyncio.run(test())


def test_a_direct_write_is_not_judged() -> None:
    async def test() -> None:
        async with cluster() as made:
            command = update({"_id": 1}, {"$set": {"id": "7"}})
            assert (await made.ask("shard1", command, "test"))["nModified"] == 1

    asyncio.run(test())
