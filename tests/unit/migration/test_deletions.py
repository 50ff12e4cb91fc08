from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import bson
import pytest
from bson.binary import Binary
from bson.timestamp import Timestamp

from docstore.collection.collection import Index
from docstore.log import JsonFormatter
from docstore.sharding.migration import RANGE_DELETIONS, RangeDeletion
from docstore.storage import Reader
from mongod.migration import range_operations
from mongod.migration.range_operations import RangeRemoval
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, turns

IDS = [f"{number:03}" for number in range(100)]


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """100 documents on shard1, cut at "050"; nothing is deleted before a test says so."""
    made = await Cluster().build()
    try:
        rows = [{"_id": value, "id": value} for value in IDS]
        await made.write({"insert": "test", "documents": rows}, "0")
        await made.split("050")
        made.members["shard1"].tunables.orphan_delay = 1000.0
        yield made
    finally:
        await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def deleter_looks(made: Cluster, shard: str = "shard1") -> None:
    """Time enough for the deleter to do what it must not do."""
    made.members[shard].shard.deleter.changed()
    await turns()


def deletion(made: Cluster, low: str) -> RangeDeletion:
    """A range deletion of a chunk, ready to be carried out at once."""
    collection = made.members["shard1"].node.store.collection(NAMESPACE)
    assert collection is not None
    return RangeDeletion(
        id=Binary(bytes(15) + b"x", 4),
        namespace=NAMESPACE,
        uuid=Binary.from_uuid(collection.uuid),
        key=made.key,
        range=made.chunk(low).range,
        donor="shard1",
        pending=False,
        delayed=False,
        written=Timestamp(1, 1),
    )


def test_a_range_is_kept_for_the_delay_and_then_deleted() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.move("050", "shard2")
            await deleter_looks(made)
            assert await made.stored("shard1") == IDS
            made.members["shard1"].tunables.orphan_delay = 0.0
            await made.settled()
            assert await made.stored("shard1") == IDS[:50]

    run(test)


def test_a_deletion_that_was_killed_half_way_is_carried_on() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.move("050", "shard2")
            first = made.members["shard1"]
            first.tunables.delete_batch, first.tunables.delete_pause = 7, 0.001
            first.tunables.orphan_delay = 0.0
            while len(await made.stored("shard1")) > 80:
                await asyncio.sleep(0)
            first.kill()
            await made.restart("shard1")
            assert 50 < len(await made.stored("shard1")) <= 80
            await made.settled()
            assert await made.stored("shard1") == IDS[:50]

    run(test)


def test_what_is_owned_is_never_deleted_whatever_the_documents_say() -> None:
    async def test() -> None:
        async with cluster() as made:
            shard = made.members["shard1"].shard
            shard.records.write((RANGE_DELETIONS, deletion(made, "050").document()))
            asked = ("config:1", "_configsvrGetRouting")
            before = made.network.answered.count(asked)
            shard.deleter.changed()
            await made.network.until(lambda: made.network.answered.count(asked) > before)
            await turns()
            assert await made.stored("shard1") == IDS
            assert len(shard.records.deletions()) == 1

    run(test)


def test_a_redacted_log_does_not_say_which_range_is_put_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "docstore.MIGRATE")
    monkeypatch.setattr("docstore.log._settings.redact", True)

    async def test() -> None:
        async with cluster() as made:
            shard = made.members["shard1"].shard
            shard.records.write((RANGE_DELETIONS, deletion(made, "050").document()))
            shard.deleter.changed()
            await made.network.until(lambda: "Deletion put off" in caplog.messages)

    run(test)
    (line,) = (JsonFormatter().format(each) for each in caplog.records if each.getMessage() == "Deletion put off")
    attributes = json.loads(line)["attr"]
    assert attributes["ns"] == NAMESPACE
    assert '"050"' not in str(attributes)
    assert "###" in attributes.values()


def test_a_pending_deletion_waits_for_its_decision() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.move("050", "shard2")
            shard = made.members["shard1"].shard
            while shard.records.coordinators():
                await asyncio.sleep(0)
            (found,) = shard.records.deletions()
            shard.records.write((RANGE_DELETIONS, replace(found, pending=True).document()))
            made.members["shard1"].tunables.orphan_delay = 0.0
            await deleter_looks(made)
            assert await made.stored("shard1") == IDS
            shard.records.write((RANGE_DELETIONS, replace(found, pending=False).document()))
            shard.deleter.changed()
            await made.settled()
            assert await made.stored("shard1") == IDS[:50]

    run(test)


def test_a_deletion_of_an_earlier_collection_of_the_name_is_dropped() -> None:
    async def test() -> None:
        async with cluster() as made:
            shard = made.members["shard1"].shard
            other = replace(deletion(made, "000"), uuid=Binary(bytes(16), 4))
            shard.records.write((RANGE_DELETIONS, other.document()))
            shard.deleter.changed()
            await made.settled()
            assert await made.stored("shard1") == IDS

    run(test)


def test_parameters_of_the_deleter_are_set_by_their_mongodb_names() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", {"setParameter": 1, "orphanCleanupDelaySecs": 7, "rangeDeleterBatchDelayMS": 40})
            tunables = made.members["shard1"].tunables
            assert (tunables.orphan_delay, tunables.delete_pause) == (7.0, 0.04)
            got = await made.ask("shard1", {"getParameter": 1, "rangeDeleterBatchSize": 1})
            assert got["rangeDeleterBatchSize"] == 128

    run(test)


def test_deleting_a_range_goes_on_where_it_was_and_finds_what_came_behind() -> None:
    """What is deleted leaves marks that a scan from the beginning passes again with every step."""

    async def test() -> None:
        made = await Cluster().build()
        try:
            for number in range(9):
                await made.insert(f"{number}")
            node = made.members["shard1"].node
            collection = node.store.collection(NAMESPACE)
            assert collection is not None
            removal = RangeRemoval(node, made.key, made.key.everything)
            assert removal.step(collection, 4) == 4
            await made.insert("00")
            starts: list[bytes] = []
            entries = range_operations.entries

            def noted(reader: Reader, index: Index, low: bytes, high: bytes) -> Iterator[tuple[bytes, int]]:
                starts.append(low)
                return entries(reader, index, low, high)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(range_operations, "entries", noted)
                counts = [removal.step(collection, 4) for _ in range(4)]
            assert counts == [4, 1, 1, 0]
            assert starts[0] == made.key.key_of(bson.encode({"id": "3"}))
            assert collection.count == 0
        finally:
            await made.stop()

    asyncio.run(test())
