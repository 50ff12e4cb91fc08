"""A database that gets another primary shard: all that is not sharded goes with it, whoever crashes meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.collection.oplog.sessions import INCOMPLETE_HISTORY
from docstore.errors import Code, CommandError
from docstore.optime import pack_timestamp
from docstore.sharding import requests
from docstore.sharding.ddl.requests import change_collection, drop_database, move_primary
from docstore.sharding.routing import Routing
from mongod.migration import session_history
from tests.unit.ddl.test_drops import (
    SHARDS,
    code_of,
    done_though_killed,
    insert,
    nothing_is_left,
    rows,
    run,
    version_of,
)
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, cut_log

DOCUMENTS = 300
_TOLD = frozenset(
    (
        "_shardsvrParticipantBlock", "_shardsvrParticipantAct", "_configsvrCommitMovePrimary", "_recvDatabaseStart",
        "_recvDatabaseCollections", "_recvChunkDocuments", "_recvDatabaseChanges", "_recvChunkCommit",
        "_recvChunkResolve", "_configsvrEnsureDatabaseVersionIsGreaterThan",
    )
)  # fmt: skip


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Database "test" on shard1: "plain" with an index and documents, "small" capped, a view, "test" sharded."""
    made = await Cluster().build()
    try:
        await made.insert("1")
        await made.split("5")
        await made.move("5", "shard2")
        await made.insert("7")
        await made.settled()
        documents = [{"_id": number, "a": number} for number in range(DOCUMENTS)]
        await made.ask("shard1", {"insert": "plain", "documents": documents}, "test")
        index = {"key": {"a": 1}, "name": "a", "unique": True}
        await made.ask("shard1", {"createIndexes": "plain", "indexes": [index]}, "test")
        await made.ask("shard1", {"create": "small", "capped": True, "size": 4096}, "test")
        await made.ask("shard1", {"insert": "small", "documents": [{"_id": n} for n in (3, 1, 2)]}, "test")
        await made.ask("shard1", {"create": "view", "viewOn": "plain", "pipeline": []}, "test")
        yield made
    finally:
        made.network.lose_reply = lambda _address, _name: False
        await made.stop()


async def moved(made: Cluster, to: str = "shard2") -> dict[str, Any]:
    return await made.ask("shard1", move_primary("test", await version_of(made), to))


async def left_nothing_to_delete(made: Cluster) -> None:
    """Return when no shard has a copy that it is to drop."""
    await nothing_is_left(made)
    await made.network.until(
        lambda: (
            not any(
                made.members[name].shard.records.database_deletions() or made.members[name].shard.records.coordinators()
                for name in SHARDS
            )
        )
    )


async def check_place(made: Cluster, old: Routing, place: str) -> None:
    """All of the database is on one shard, and routers that believe in another one are refused there."""
    other = next(shard for shard in SHARDS if shard != place)
    await left_nothing_to_delete(made)
    fresh = await made.routing_of("test.plain")
    assert fresh.primary == place
    find = {"find": "plain", "batchSize": 1000}
    found = await made.ask(place, made.versioned(find, fresh.shard_version(place)), "test")
    assert [row["a"] for row in found["cursor"]["firstBatch"]] == list(range(DOCUMENTS))
    small = await made.ask(place, made.versioned({"find": "small"}, fresh.shard_version(place)), "test")
    assert [row["_id"] for row in small["cursor"]["firstBatch"]] == [3, 1, 2]
    listed = await made.ask(place, {"listCollections": 1}, "test")
    names = {row["name"]: row for row in listed["cursor"]["firstBatch"]}
    assert sorted(names) == ["plain", "small", "system.views", "test", "view"]
    assert names["small"]["options"]["size"] == 4096
    indexes = await made.ask(place, {"listIndexes": "plain"}, "test")
    assert [index.get("unique") for index in indexes["cursor"]["firstBatch"]] == [None, True]
    collection = made.members[place].node.store.collection(NAMESPACE)
    assert collection is not None
    assert collection.uuid.bytes == bytes(made.uuid)
    assert made.members[other].node.store.namespaces("test") == [NAMESPACE]
    for version in {old.shard_version("shard1"), fresh.shard_version(place)}:
        command = made.versioned({"insert": "plain", "documents": [{"_id": -1, "a": -1}]}, version)
        assert await code_of(made.ask(other, command, "test")) == Code.StaleDbVersion
    assert (await insert(made, fresh, place, "plain"))["n"] == 1
    assert sorted(await made.visible()) == ["1", "7"]


def test_everything_that_is_not_sharded_goes_to_the_new_primary_shard() -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            assert (await moved(made))["primary"] == "shard2"
            await check_place(made, old, "shard2")
            (record,) = await rows(made, "config", "databases")
            assert (record["primary"], record["version"]["lastMod"]) == ("shard2", 2)
            index = {"createIndexes": "test", "indexes": [{"key": {"z": 1}, "name": "z"}]}
            change = change_collection(NAMESPACE, made.epoch, bson.encode(index))
            assert await code_of(made.ask("shard1", change)) == Code.StaleDbVersion
            assert sorted((await made.ask("shard2", change))["shards"]) == ["shard1", "shard2"]
            back = move_primary("test", await version_of(made), "shard1")
            assert (await made.ask("shard2", back))["primary"] == "shard1"
            assert (await made.ask("shard2", back))["primary"] == "shard1"
            assert (await made.routing_of("test.plain")).primary == "shard1"
            assert made.members["shard2"].node.store.collection("test.plain") is None
            assert (await made.ask("shard1", drop_database("test", await version_of(made))))["dropped"]

    run(test)


def test_a_retry_that_arrives_after_the_move_is_not_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pages the history of retryable writes takes."""
    monkeypatch.setattr(session_history, "MAX_PAGE_READS", 3)

    async def test() -> None:
        async with cluster() as made:
            many = [{"q": {"_id": number}, "u": {"$inc": {"n": 1}}} for number in range(20, 30)]
            writes: list[dict[str, Any]] = [
                {"insert": "plain", "documents": [{"_id": "new", "a": "new"}]},
                {"update": "plain", "updates": many},
                {"update": "plain", "updates": [{"q": {"_id": "made"}, "u": {"$inc": {"n": 1}}, "upsert": True}]},
                {"delete": "plain", "deletes": [{"q": {"a": 30}, "limit": 1}]},
                {"findAndModify": "plain", "query": {"_id": 31}, "update": {"$inc": {"n": 1}}, "new": True},
                {"findAndModify": "plain", "query": {"_id": 32}, "remove": True},
            ]
            retryable = [
                {**write, "lsid": {"id": Binary(bytes([session]) * 16, 4)}, "txnNumber": Int64(1)}
                for session, write in enumerate(writes)
            ]
            first = [await made.ask("shard1", write, "test") for write in retryable]
            for to, come_from in (("shard2", "shard1"), ("shard1", "shard2")):
                await made.ask(come_from, move_primary("test", await version_of(made), to))
                version = (await made.routing_of("test.plain")).shard_version(to)
                for write, answered in zip(retryable, first, strict=True):
                    again = await made.ask(to, made.versioned(write, version), "test")
                    same = {"n", "nModified", "upserted", "value", "lastErrorObject"} & answered.keys()
                    assert {name: again[name] for name in same} == {name: answered[name] for name in same}
                    assert "retriedStmtIds" in again or "retriedStmtId" in again
            found = (await made.ask("shard1", {"find": "plain", "batchSize": 1000}, "test"))["cursor"]["firstBatch"]
            numbers = {row["_id"]: row.get("n") for row in found}
            assert len(found) == len(numbers) == DOCUMENTS + 2 - 2
            assert [numbers[key] for key in ("made", *range(20, 30), 31)] == [1] * 12

    run(test)


def test_measurements_that_are_sent_again_after_the_move_come_once() -> None:
    """Those that came into a bucket together have one entry in the history."""

    async def test() -> None:
        async with cluster() as made:
            await made.ask("shard1", {"create": "series", "timeseries": {"timeField": "t", "metaField": "m"}}, "test")
            base = datetime(2026, 1, 1, tzinfo=UTC)
            documents = [{"t": base + timedelta(seconds=n), "m": n % 3, "n": n} for n in range(30)]
            writes: list[dict[str, Any]] = [
                {"insert": "series", "documents": documents},
                {"insert": "series", "documents": documents[:10], "ordered": False},
                {"insert": "series", "documents": documents[:1]},
            ]
            retryable = [
                {**write, "lsid": {"id": Binary(bytes([session]) * 16, 4)}, "txnNumber": Int64(5)}
                for session, write in enumerate(writes)
            ]
            for write in retryable:
                await made.ask("shard1", write, "test")
            for to, come_from in (("shard2", "shard1"), ("shard1", "shard2")):
                await made.ask(come_from, move_primary("test", await version_of(made), to))
                version = (await made.routing_of("test.series")).shard_version(to)
                for write in retryable:
                    again = await made.ask(to, made.versioned(write, version), "test")
                    assert again["n"] == len(write["documents"])
                    assert len(again["retriedStmtIds"]) == len(write["documents"])
            rows = (await made.ask("shard1", {"find": "series", "batchSize": 1000}, "test"))["cursor"]["firstBatch"]
            assert len(rows) == 41

    run(test)


def test_what_the_old_primary_shard_would_refuse_the_new_one_refuses() -> None:
    """Its log was cut: nobody knows whether the write was executed."""

    async def test() -> None:
        async with cluster() as made:
            update = {"update": "plain", "updates": [{"q": {"_id": 5}, "u": {"$inc": {"n": 1}}}]}
            write = {**update, "lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1)}
            await made.ask("shard1", write, "test")
            await made.ask(
                "shard1", {"update": "plain", "updates": [{"q": {"_id": 6}, "u": {"$set": {"n": 1}}}]}, "test"
            )
            cut_log(made.members["shard1"])
            for to, come_from in (("shard2", "shard1"), ("shard1", "shard2")):
                await made.ask(come_from, move_primary("test", await version_of(made), to))
                version = (await made.routing_of("test.plain")).shard_version(to)
                reply = await made.ask(to, made.versioned(write, version), "test")
                assert reply["writeErrors"][0]["code"] == INCOMPLETE_HISTORY
            (row,) = (await made.ask("shard1", {"find": "plain", "filter": {"_id": 5}}, "test"))["cursor"]["firstBatch"]
            assert row["n"] == 1

    run(test)


def test_writes_go_on_while_a_database_is_copied_and_wait_while_its_record_changes() -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            version = old.shard_version("shard1")
            find = made.versioned({"find": "plain", "limit": 1}, version)
            held = made.network.held["_configsvrCommitMovePrimary"] = asyncio.Event()
            copying = made.network.held["_recvDatabaseCollections"] = asyncio.Event()
            moving = asyncio.ensure_future(moved(made))
            await made.network.comes("_recvDatabaseCollections")
            changes: list[tuple[dict[str, Any], str]] = [
                ({"update": "plain", "updates": [{"q": {"_id": 5}, "u": {"$set": {"b": 1}}}]}, "plain"),
                ({"insert": "plain", "documents": [{"_id": DOCUMENTS, "a": DOCUMENTS}]}, "plain"),
                ({"insert": "plain", "documents": [{"_id": "gone", "a": -5}]}, "plain"),
                ({"delete": "plain", "deletes": [{"q": {"_id": "gone"}, "limit": 1}]}, "plain"),
                ({"update": "small", "updates": [{"q": {"_id": 1}, "u": {"$set": {"b": 1}}}]}, "small"),
                ({"insert": "small", "documents": [{"_id": 7}]}, "small"),
                ({"insert": "new", "documents": [{"_id": 1}]}, "new"),
            ]
            for change, _ in changes:
                assert (await made.ask("shard1", made.versioned(change, version), "test"))["n"] == 1
            index = {"createIndexes": "plain", "indexes": [{"key": {"b": 1}, "name": "b"}]}
            defining = asyncio.ensure_future(made.ask("shard1", made.versioned(index, version), "test"))
            await made.network.waits("shard1", "test.plain", 1)
            await made.ask("shard1", find, "test")
            await made.insert("2")
            copying.set()
            await made.network.comes("_configsvrCommitMovePrimary", to="config")
            writing = asyncio.ensure_future(insert(made, old, "shard1", "plain"))
            reading = asyncio.ensure_future(made.ask("shard1", find, "test"))
            await made.network.waits("shard1", "test.plain", 3)
            assert not defining.done()
            assert not writing.done()
            assert not reading.done()
            await made.insert("3")
            held.set()
            await moving
            assert await code_of(writing) == Code.StaleDbVersion
            assert await code_of(reading) == Code.StaleDbVersion
            assert await code_of(defining) == Code.StaleDbVersion
            assert sorted(await made.visible()) == ["1", "2", "3", "7"]
            fresh = (await made.routing_of("test.plain")).shard_version("shard2")
            shown = {}
            for name in ("plain", "small", "new"):
                reply = await made.ask("shard2", made.versioned({"find": name, "batchSize": 1000}, fresh), "test")
                shown[name] = reply["cursor"]["firstBatch"]
            assert [row["a"] for row in shown["plain"]] == list(range(DOCUMENTS + 1))
            assert shown["plain"][5] == {"_id": 5, "a": 5, "b": 1}
            assert shown["small"] == [{"_id": 3}, {"_id": 1, "b": 1}, {"_id": 2}, {"_id": 7}]
            assert shown["new"] == [{"_id": 1}]

    run(test)


def test_change_streams_are_told_nothing_of_a_move() -> None:
    async def test() -> None:
        async with cluster() as made:
            before = {name: made.members[name].node.store.last_optime.timestamp for name in SHARDS}
            await moved(made)
            await left_nothing_to_delete(made)
            for name in SHARDS:
                node = made.members[name].node
                assert node.store.oplog is not None
                for entry in map(bson.decode, node.store.oplog.scan(node.engine, before[name])):
                    database = entry["ns"].partition(".")[0]
                    assert database != "test" or entry.get("fromMigrate"), entry

    run(test)


def test_what_reads_a_state_of_before_the_move_is_refused_on_the_new_primary_shard() -> None:
    """It would see nothing, or a part. A database that is where it was made shows what it held at any time."""

    async def test() -> None:
        async with cluster() as made:
            here = made.members["shard1"].shard.shard_filter
            await here.refresh("test.plain")
            here.check_placed("test.plain", 1)
            await moved(made)
            there = made.members["shard2"].shard.shard_filter
            version = (await there.refresh("test.plain")).routing.database
            assert version is not None
            arrived = pack_timestamp(version.timestamp)
            there.check_placed("test.plain", arrived)
            with pytest.raises(CommandError) as caught:
                there.check_placed("test.plain", arrived - 1)
            assert caught.value.code == Code.SnapshotUnavailable

    run(test)


def test_a_transaction_is_waited_for_and_nothing_is_committed_in_what_is_being_handed_over() -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            version = old.shard_version("shard1")
            fields = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "autocommit": False}
            change = {"update": "plain", "updates": [{"q": {"_id": 3}, "u": {"$set": {"b": 1}}}]}
            await made.ask("shard1", made.versioned({**change, **fields, "startTransaction": True}, version), "test")
            held = made.network.held["_configsvrCommitMovePrimary"] = asyncio.Event()
            moving = asyncio.ensure_future(moved(made))
            statements = made.members["shard1"].shard.shard_filter.statements
            await made.network.until(lambda: statements._gates)
            assert not moving.done()
            other = {"insert": "other", "documents": [{"_id": 1}]}
            assert (await made.ask("shard1", made.versioned({**other, **fields}, version), "test"))["n"] == 1, (
                "the move waits for it, so it does not wait for the move"
            )
            await made.ask("shard1", {"commitTransaction": 1, **fields})
            await made.network.comes("_configsvrCommitMovePrimary", to="config")
            claims = made.members["shard1"].node.store.claims
            with pytest.raises(CommandError) as caught:
                claims.check_open(["test.new"])
            assert caught.value.code == Code.LockTimeout
            claims.check_open([NAMESPACE, "other.new"])
            held.set()
            await moving
            fresh = (await made.routing_of("test.plain")).shard_version("shard2")
            reply = await made.ask("shard2", made.versioned({"find": "plain", "filter": {"_id": 3}}, fresh), "test")
            assert reply["cursor"]["firstBatch"] == [{"_id": 3, "a": 3, "b": 1}]

    run(test)


@pytest.mark.parametrize(("victim", "number"), list(itertools.product((*SHARDS, "config"), range(12))))
def test_a_database_is_on_one_shard_whoever_is_killed_at_whatever_message(victim: str, number: int) -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            move = move_primary("test", await version_of(made), "shard2")
            assert (await done_though_killed(made, move, victim, number, _TOLD))["primary"] == "shard2"
            await made.refresh()
            await check_place(made, old, "shard2")

    run(test)


def test_a_database_stays_where_the_new_primary_shard_has_something_else_of_a_name() -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            await made.ask("shard2", {"insert": "small", "documents": [{"_id": 9}]}, "test")
            assert await code_of(moved(made)) == Code.NamespaceExists
            await nothing_is_left(made)
            await made.ask("shard2", {"drop": "small"}, "test")
            await check_place(made, old, "shard1")

    run(test)


def test_what_was_copied_is_dropped_where_the_config_servers_refuse() -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            held = made.network.held["_configsvrCommitMovePrimary"] = asyncio.Event()
            moving = asyncio.ensure_future(moved(made))
            await made.network.comes("_configsvrCommitMovePrimary", to="config")
            assert made.members["shard2"].node.store.collection("test.plain") is not None
            await made.ask("config", requests.remove_shard("shard2"))
            held.set()
            assert await code_of(moving) == Code.ShardNotFound
            await nothing_is_left(made)
            await made.refresh()
            await check_place(made, old, "shard1")

    run(test)


def test_a_late_copy_of_an_ended_move_does_nothing() -> None:
    async def test() -> None:
        async with cluster() as made:
            late: list[tuple[str, dict[str, Any]]] = []
            command = made.network.command

            async def recording(address: str, db: str, body: Any, **options: Any) -> bytes:
                if isinstance(body, dict) and next(iter(body)) == "_shardsvrParticipantAct":
                    late.append((address.partition(":")[0], body))
                return await command(address, db, body, **options)

            made.network.command = recording  # type: ignore[method-assign]
            old = await made.routing_of("test.plain")
            await moved(made)
            made.network.command = command  # type: ignore[method-assign]
            assert [body["document"]["phase"] for _, body in late] == ["preparing"]
            for name, body in late:
                assert await code_of(made.ask(name, body)) == Code.OperationFailed
            await check_place(made, old, "shard2")

    run(test)


def test_a_commit_that_was_given_up_does_not_succeed_later() -> None:
    async def test() -> None:
        async with cluster() as made:
            version = await version_of(made)
            late = requests.commit_move_primary("test", version, "shard2")
            ensure = requests.ensure_database_version_greater("test", version)
            for _ in range(2):
                assert (await made.ask("config", ensure))["shard"] == "shard1"
            assert await code_of(made.ask("config", late)) == Code.StaleDbVersion
            drawn = await version_of(made)
            assert drawn.timestamp > version.timestamp
            await made.ask("config", requests.commit_move_primary("test", drawn, "shard2"))
            await made.ask("config", requests.commit_move_primary("test", drawn, "shard2"))
            again = requests.ensure_database_version_greater("test", drawn)
            assert (await made.ask("config", again))["shard"] == "shard2"

    run(test)


def test_a_database_comes_back_once_its_old_copy_has_gone() -> None:
    async def test() -> None:
        async with cluster() as made:
            old = await made.routing_of("test.plain")
            for member in made.members.values():
                member.tunables.orphan_delay = 0.3
            for to, come_from in (("shard2", "shard1"), ("shard1", "shard2"), ("shard2", "shard1")):
                await made.ask(come_from, move_primary("test", await version_of(made), to))
            for member in made.members.values():
                member.tunables.orphan_delay = 0.0
            await made.refresh()
            await check_place(made, old, "shard2")

    run(test)


def test_a_cursor_that_was_opened_before_the_move_is_read_to_its_end() -> None:
    async def test() -> None:
        async with cluster() as made:
            version = (await made.routing_of("test.plain")).shard_version("shard1")
            reply = await made.ask("shard1", made.versioned({"find": "plain", "batchSize": 10}, version), "test")
            await moved(made)
            await left_nothing_to_delete(made)
            assert made.members["shard1"].node.store.collection("test.plain") is None
            more = {"getMore": Int64(reply["cursor"]["id"]), "collection": "plain", "batchSize": DOCUMENTS}
            rest = await made.ask("shard1", more, "test")
            shown = [row["a"] for row in (*reply["cursor"]["firstBatch"], *rest["cursor"]["nextBatch"])]
            assert shown == list(range(DOCUMENTS))

    run(test)


def test_a_temporary_collection_that_a_router_fills_stays_behind_and_ends_with_the_move() -> None:
    async def test() -> None:
        async with cluster() as made:
            routing, made_for = await made.routing_of("test.plain"), f"tmp.agg_out.{uuid4()}"

            async def fill(number: int) -> dict[str, Any]:
                command = {"insert": made_for, "documents": [{"_id": number}], "intoOutput": True}
                return await made.ask("shard1", made.versioned(command, routing.shard_version("shard1")), "test")

            create = {"create": made_for, "forOutput": True}
            await made.ask("shard1", made.versioned(create, routing.shard_version("shard1")), "test")
            await fill(1)
            held = made.network.held["_recvChunkDocuments"] = asyncio.Event()
            moving = asyncio.ensure_future(moved(made))
            await made.network.comes("_recvChunkDocuments", times=2)
            await fill(2)
            held.set()
            await moving
            assert await code_of(fill(3)) in (Code.StaleDbVersion, 17216)
            await left_nothing_to_delete(made)
            for name in SHARDS:
                assert f"test.{made_for}" not in made.members[name].node.store.namespaces("test")

    run(test)
