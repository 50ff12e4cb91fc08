"""Dates that Python's `datetime` cannot hold, as bounds of chunks and wherever else a catalog keeps users' values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS

from docstore.bson import document_from, document_to_python, from_python
from docstore.commands.legacy.opcodes import _create_indexes
from docstore.errors import CommandError
from docstore.net.pool import raise_for_error
from docstore.replicaset.sync.remote import optime_of
from docstore.sharding import requests
from docstore.sharding.routing import Routing, apply_routing, routing_request
from mongod.migration.session_history import Statement
from tests.unit.configsvr.test_commands import run
from tests.unit.migration.local_cluster import Cluster

BEFORE_YEAR_1 = DatetimeMS(-70_000_000_000_000)
AFTER_YEAR_9999 = DatetimeMS(300_000_000_000_000)
DATES = "test.dates"


@asynccontextmanager
async def by_date() -> AsyncIterator[Cluster]:
    """`test.dates` is sharded by its `at` and cut at both dates."""
    made = await Cluster().build()
    try:
        await made.ask("shard1", requests.shard_collection(DATES, {"at": 1}, False))
        for date in (BEFORE_YEAR_1, AFTER_YEAR_9999):
            routing = await routing_of(made)
            assert routing.collection is not None
            key = routing.collection.key
            point = key.bound(bson.encode({"at": date}))
            chunk = routing.collection.chunks.chunk_at(point.key)
            command = requests.split_chunk(
                DATES, key.document(), chunk.range, [point], epoch=routing.collection.epoch, shard="shard1"
            )
            await made.ask("shard1", command)
        yield made
    finally:
        await made.stop()


async def routing_of(made: Cluster, known: Routing | None = None) -> Routing:
    """As a router reads it, all of it unless something is known."""
    reply = await made.network.command("config:1", "admin", routing_request(DATES, known))
    return apply_routing(DATES, known, reply)


def lows(routing: Routing) -> list[Any]:
    assert routing.collection is not None
    return [document_to_python(chunk.min.raw)["at"] for chunk in routing.collection.chunks]


def test_chunks_cut_at_any_date_are_routed_moved_and_read_again_after_a_restart() -> None:
    async def test() -> None:
        async with by_date() as made:
            routing = await routing_of(made)
            assert lows(routing)[1:] == [BEFORE_YEAR_1, AFTER_YEAR_9999]
            collection = routing.collection
            assert collection is not None
            top = collection.chunks.chunk_at(collection.key.bound(bson.encode({"at": AFTER_YEAR_9999})).key)
            document = {"_id": 1, "at": AFTER_YEAR_9999}
            version = {"shardVersion": routing.shard_version("shard1").to_document()}
            await made.ask("shard1", {"insert": "dates", "documents": [document], **version}, "test")
            await made.ask("shard1", requests.move_range(DATES, top.range, routing.version(), "shard2"))
            moved = await routing_of(made, routing)
            assert lows(moved) == lows(await routing_of(made))
            made.members["shard2"].kill()
            await made.restart("shard2")
            version = {"shardVersion": moved.shard_version("shard2").to_document()}
            raw = await made.network.command("shard2:1", "test", {"find": "dates", **version})
            assert document_to_python(raw)["cursor"]["firstBatch"] == [document]

    run(test)


def test_a_migration_can_be_told_of_while_its_range_has_such_dates() -> None:
    async def test() -> None:
        async with by_date() as made:
            routing = await routing_of(made)
            assert routing.collection is not None
            chunk = next(iter(routing.collection.chunks))
            assert f"new Date({int(BEFORE_YEAR_1)})" in str(chunk.range), "a log line shows it"
            reply = await made.network.command("shard1:1", "admin", {"getShardVersion": DATES, "fullMetadata": True})
            listed = document_to_python(reply)["metadata"]["chunks"]
            assert [low["at"] for low, _ in listed[1:]] == [BEFORE_YEAR_1, AFTER_YEAR_9999]

    run(test)


@pytest.mark.parametrize("date", [BEFORE_YEAR_1, AFTER_YEAR_9999], ids=str)
def test_errors_statements_entries_and_indexes_keep_such_dates(date: DatetimeMS) -> None:
    error = bson.encode({"ok": 0.0, "code": 11000, "errmsg": "duplicate", "keyValue": {"at": date}})
    with pytest.raises(CommandError) as caught:
        raise_for_error(error)
    assert caught.value.extra == {"keyValue": {"at": date}}
    fields = {"lsid": b"1", "txnNumber": 1, "stmtId": 0, "op": "i", "document": {"_id": date}}
    assert Statement.from_raw(bson.encode(fields)).document == bson.encode({"_id": date})
    entry = bson.encode({"ts": bson.Timestamp(5, 1), "t": 2, "op": "i", "ns": "test.c", "o": {"_id": date}})
    assert optime_of(entry).term == 2
    spec = {"ns": "test.c", "key": {"a": 1}, "name": "a_1", "partialFilterExpression": {"at": {"$gt": date}}}
    body = document_to_python(_create_indexes("test", (bson.encode(spec),)))
    assert body["indexes"][0]["partialFilterExpression"] == {"at": {"$gt": date}}
    assert document_to_python(document_from([("at", *from_python(date))])) == {"at": date}
