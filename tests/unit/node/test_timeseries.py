"""Time-series collections: measurements go into buckets once, are found, changed by their metadata, and expire."""

from __future__ import annotations

import datetime
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.collection.oplog.apply import apply_entry
from docstore.errors import Code
from docstore.key_layout import SESSION_PREFIX, after_prefix
from docstore.node.timeseries.insert import OpenBuckets
from docstore.node.upkeep.ttl import TtlMonitor
from docstore.storage import Family
from tests.unit.collection.building import check, entries, store_on
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.transactional import Client

NOW = datetime.datetime(2030, 1, 1)


def at(seconds: float) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=seconds)


async def made(*, replicated: bool = False, **options: Any) -> LocalNode:
    node = LocalNode(replicated=replicated)
    node.node.wall_clock = lambda: NOW.replace(tzinfo=datetime.UTC).timestamp()
    await node.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}, **options})
    return node


async def insert(node: LocalNode, *rows: dict[str, Any], **options: Any) -> dict[str, Any]:
    return await node.reply({"insert": "s", "documents": list(rows), **options})


async def found(node: LocalNode, name: str = "s", **asked: Any) -> list[dict[str, Any]]:
    reply = await node.run({"find": name, "batchSize": 10_000, **asked})
    documents: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return documents


async def buckets(node: LocalNode) -> list[dict[str, Any]]:
    return await found(node, "system.buckets.s")


def test_measurements_come_back_as_they_were() -> None:
    async def work() -> None:
        node = await made()
        rows = [{"_id": n, "t": at(n), "m": {"b": n % 2, "a": 1}, "v": [n], "w": {"x": n}} for n in range(50)]
        assert (await insert(node, *rows))["n"] == 50
        assert len(await buckets(node)) == 2
        assert await found(node, sort={"_id": 1}) == rows
        assert await found(node, filter={"m.b": 1, "v": {"$gte": 47}}, sort={"_id": 1}) == [rows[47], rows[49]]
        assert await found(node, filter={"t": {"$gt": at(10), "$lte": at(12)}}, sort={"_id": 1}) == rows[11:13]
        assert (await node.run({"count": "s", "query": {"m": {"a": 1, "b": 0}}}))["n"] == 25

    loop(work())


def test_what_is_no_measurement_is_refused_alone() -> None:
    async def work() -> None:
        node = await made()
        rows = [{"t": at(0)}, {"x": 1}, {"t": at(1)}, {"t": 5}]
        reply = await insert(node, *rows, ordered=False)
        assert (reply["n"], [(each["index"], each["code"]) for each in reply["writeErrors"]]) == (
            2, [(1, Code.BadValue), (3, Code.BadValue)],
        )  # fmt: skip
        reply = await insert(node, *rows)
        assert (reply["n"], [each["index"] for each in reply["writeErrors"]]) == (1, [1])
        assert len(await found(node)) == 3
        assert len(await buckets(node)) == 1

    loop(work())


def retried(number: int, *rows: dict[str, Any], **options: Any) -> dict[str, Any]:
    session = {"lsid": {"id": Binary(b"l" * 16, 4)}, "txnNumber": Int64(number)}
    return {"insert": "s", "documents": list(rows), **session, **options}


def test_a_retried_insert_is_not_done_twice() -> None:
    async def work() -> None:
        node = await made(replicated=True)
        rows = [{"_id": n, "t": at(n % 3 * 4000), "m": n % 2} for n in range(12)]
        for _ in range(3):
            reply = await node.run(retried(1, *rows))
            assert reply["n"] == 12
        assert len(await found(node)) == 12
        # What a part of the command has done is not done again by the whole.
        await node.run(retried(2, *rows[:5]))
        assert (await node.run(retried(2, *rows)))["n"] == 12
        assert len(await found(node)) == 24
        node.node.store.sessions.forget()
        assert (await node.run(retried(2, *rows)))["n"] == 12, "read from the oplog again"
        assert len(await found(node)) == 24

    loop(work())


def test_a_follower_holds_the_same_buckets_and_knows_the_statements() -> None:
    async def work() -> None:
        node = await made(replicated=True)
        await node.run({"createIndexes": "s", "indexes": [{"key": {"m": 1, "t": -1}, "name": "mt"}]})
        await node.run(retried(4, *[{"_id": n, "t": at(n), "m": n % 2} for n in range(6)]))
        await node.run(retried(5, *[{"_id": n, "t": at(n), "m": n % 2} for n in range(6, 9)]))
        await node.run({"update": "s", "updates": [{"q": {"m": 1}, "u": {"$set": {"m": 7}}, "multi": True}]})
        await node.run({"collMod": "s", "timeseries": {"granularity": "minutes"}, "expireAfterSeconds": 77})
        leader, follower = node.node.store, store_on()
        for entry in entries(leader):
            apply_entry(follower, entry)
        check(follower)
        ours, theirs = leader.collection("test.system.buckets.s"), follower.collection("test.system.buckets.s")
        assert ours is not None
        assert theirs is not None
        assert list(theirs.documents(follower.engine)) == list(ours.documents(leader.engine))
        assert theirs.options == ours.options
        row_key = next(leader.engine.keys(Family.META, SESSION_PREFIX, after_prefix(SESSION_PREFIX)))
        lsid = row_key[len(SESSION_PREFIX) :]
        assert [follower.sessions.statement(lsid, 5, each) is not None for each in range(4)] == [True] * 3 + [False]

    loop(work())


def test_a_bucket_that_others_have_changed_or_taken_is_not_filled() -> None:
    async def work() -> None:
        node = await made()
        await insert(node, {"_id": 1, "t": at(0), "m": 1}, {"_id": 2, "t": at(0), "m": 2})
        await node.run({"update": "s", "updates": [{"q": {"m": 1}, "u": {"$set": {"m": 3}}, "multi": True}]})
        await node.run({"delete": "s", "deletes": [{"q": {"m": 2}, "limit": 0}]})
        await insert(node, {"_id": 3, "t": at(1), "m": 1}, {"_id": 4, "t": at(1), "m": 2})
        assert sorted((each["_id"], each["m"]) for each in await found(node)) == [(1, 3), (3, 1), (4, 2)]

    loop(work())


def test_buckets_that_are_forgotten_stay_as_they_are() -> None:
    """As after a restart, or where another member has become primary."""

    async def work() -> None:
        node = await made()
        await insert(node, {"_id": 1, "t": at(0)})
        node.node.parts[OpenBuckets].clear()
        await insert(node, {"_id": 2, "t": at(1)})
        assert [each["_id"] for each in await found(node, sort={"_id": 1})] == [1, 2]
        assert len(await buckets(node)) == 2

    loop(work())


def test_writes_by_metadata_are_counted_in_measurements() -> None:
    async def work() -> None:
        node = await made()
        await insert(node, *[{"_id": n, "t": at(n), "m": n % 3} for n in range(9)])
        changed = await node.run({"update": "s", "updates": [{"q": {"m": 1}, "u": {"$set": {"m": 5}}, "multi": True}]})
        assert (changed["n"], changed["nModified"]) == (3, 3)
        changed = await node.run({"update": "s", "updates": [{"q": {"m": 5}, "u": {"$set": {"m": 5}}, "multi": True}]})
        assert (changed["n"], changed["nModified"]) == (3, 0)
        assert (await node.run({"delete": "s", "deletes": [{"q": {"m": {"$in": [0, 5]}}, "limit": 0}]}))["n"] == 6

    loop(work())


@pytest.mark.parametrize("replicated", [False, True])
def test_buckets_expire_when_their_last_measurement_has(replicated: bool) -> None:
    async def work() -> None:
        node = await made(replicated=replicated, expireAfterSeconds=60)
        await insert(node, {"_id": 1, "t": at(-200), "m": 1}, {"_id": 2, "t": at(-61), "m": 1})
        await insert(node, {"_id": 3, "t": at(-200), "m": 2}, {"_id": 4, "t": at(-59), "m": 2})
        await insert(
            node, {"_id": 5, "t": datetime.datetime(1960, 1, 1)}, {"_id": 6, "t": datetime.datetime(2200, 1, 1)}
        )
        await TtlMonitor(node.node).run_pass()
        assert sorted(each["_id"] for each in await found(node)) == [3, 4, 5, 6]

    loop(work())


def test_nothing_is_inserted_in_a_transaction() -> None:
    async def work() -> None:
        node = await made(replicated=True)
        client = Client(node)
        refused = await client.first({"insert": "s", "documents": [{"t": at(0)}]})
        assert refused["code"] == Code.OperationNotSupportedInTransaction
        assert await found(node) == []

    loop(work())


def test_the_view_and_its_buckets_come_and_go_together() -> None:
    async def work() -> None:
        node = await made()
        listed = (await node.run({"listCollections": 1, "nameOnly": True}))["cursor"]["firstBatch"]
        assert [(each["name"], each["type"]) for each in listed] == [
            ("s", "timeseries"), ("system.buckets.s", "collection"), ("system.views", "collection"),
        ]  # fmt: skip
        assert (await node.reply({"create": "s"}))["code"] == Code.NamespaceExists
        assert (await node.reply({"drop": "system.views"}))["code"] == Code.CommandFailed
        assert (await node.reply({"insert": "system.buckets.other", "documents": [{}]}))[
            "code"
        ] == Code.InvalidNamespace
        await node.run({"drop": "s"})
        assert node.node.store.namespaces() == ["test.system.views"]
        assert (await node.run({"insert": "s", "documents": [{"_id": 1}]}))["n"] == 1, "an ordinary collection now"

    loop(work())


def test_buckets_may_be_written_as_documents() -> None:
    async def work() -> None:
        node = await made()
        name = "system.buckets.s"
        await insert(node, {"_id": 1, "t": at(1), "m": 1}, {"_id": 2, "t": at(2), "m": 2})
        kept = await buckets(node)
        assert (await node.run({"delete": name, "deletes": [{"q": {"meta": 1}, "limit": 1}]}))["n"] == 1
        assert [row["_id"] for row in await found(node)] == [2]
        (refused,) = (await node.run({"insert": name, "documents": [{}]}))["writeErrors"]
        assert refused["code"] == Code.DocumentValidationFailure
        assert (await node.run({"insert": name, "documents": [kept[0]]}))["n"] == 1
        assert [row["_id"] for row in await found(node, sort={"_id": 1})] == [1, 2]
        # What has become of the open bucket is no bucket: the next measurement goes into a new one.
        broken = {"q": {"meta": 2}, "u": {"$unset": {"data.t": ""}}}
        assert (await node.run({"update": name, "updates": [broken]}))["nModified"] == 1
        await insert(node, {"_id": 3, "t": at(3), "m": 2})
        assert [row["_id"] for row in await found(node, filter={"m": 1})] == [1]
        assert len(await buckets(node)) == 3

    loop(work())


def test_statistics_count_buckets() -> None:
    async def work() -> None:
        node = await made()
        await insert(node, *[{"t": at(n), "m": n % 2} for n in range(10)])
        await insert(node, {"t": at(-7200), "m": 0}, {"t": at(1), "m": 0, "v": 1}, {"t": at(2), "m": 0, "v": "x"})
        section = (await node.run({"collStats": "s"}))["timeseries"]
        assert section["bucketCount"] == 5
        assert {name: section[name] for name in section if name.startswith("numBuckets")} == {
            "numBucketsOpenedDueToMetadata": 2,
            "numBucketsClosedDueToCount": 0,
            "numBucketsClosedDueToSchemaChange": 1,
            "numBucketsClosedDueToSize": 0,
            "numBucketsClosedDueToTimeForward": 1,
            "numBucketsClosedDueToTimeBackward": 1,
            "numBucketsClosedDueToMemoryThreshold": 0,
        }
        assert (section["numMeasurementsCommitted"], section["numCommits"]) == (13, 5)

    loop(work())


def test_indexes_are_those_of_buckets_and_shown_as_those_of_measurements() -> None:
    async def work() -> None:
        node = await made()
        await insert(node, *[{"_id": n, "t": at(n * 4000), "m": n % 5} for n in range(40)])
        keys = [{"m": 1}, {"t": -1}, {"m": 1, "t": 1}, {"v": -1}]
        indexes = [{"key": key, "name": str(place)} for place, key in enumerate(keys)]
        await node.run({"createIndexes": "s", "indexes": indexes})
        listed = (await node.run({"listIndexes": "s"}))["cursor"]["firstBatch"]
        assert [each["key"] for each in listed] == keys
        of_buckets = (await node.run({"listIndexes": "system.buckets.s"}))["cursor"]["firstBatch"]
        assert [each["key"] for each in of_buckets] == [
            {"meta": 1},
            {"control.max.t": -1, "control.min.t": -1},
            {"meta": 1, "control.min.t": 1, "control.max.t": 1},
            {"control.max.v": -1, "control.min.v": -1},
        ]
        asked = {"find": "s", "filter": {"m": 2, "t": {"$gte": at(60_000)}}, "sort": {"_id": 1}}
        expected = [n for n in range(40) if n % 5 == 2 and n >= 15]
        for hint in ({}, {"hint": {"m": 1}}, {"hint": {"t": -1}}, {"hint": "2"}):
            reply = await node.run(asked | hint)
            assert [each["_id"] for each in reply["cursor"]["firstBatch"]] == expected
        refused = await insert(node, {"t": at(0), "v": [1]}, {"t": at(0), "v": 1}, ordered=False)
        assert (refused["n"], refused["writeErrors"][0]["code"]) == (1, 5930501)

    loop(work())


def test_buckets_of_a_length_of_their_own() -> None:
    async def work() -> None:
        node = LocalNode()
        custom = {"bucketMaxSpanSeconds": 90, "bucketRoundingSeconds": 90}
        for refused in (
            {"granularity": "hours", **custom}, {"bucketRoundingSeconds": 90}, {**custom, "bucketMaxSpanSeconds": 91},
        ):  # fmt: skip
            reply = await node.reply({"create": "s", "timeseries": {"timeField": "t", **refused}})
            assert reply["code"] == Code.InvalidOptions
        await node.run({"create": "s", "timeseries": {"timeField": "t", **custom}})
        (listed, *_) = (await node.run({"listCollections": 1, "filter": {"name": "s"}}))["cursor"]["firstBatch"]
        assert listed["options"]["timeseries"] == {"timeField": "t", **custom}
        await insert(node, *({"_id": n, "t": at(n)} for n in (0, 89, 90, 100, 300)))
        assert [bucket["control"]["min"]["t"] for bucket in await buckets(node)] == [at(0), at(90), at(270)]
        early = {"find": "s", "filter": {"t": {"$lt": at(95)}}, "sort": {"_id": 1}}
        assert [row["_id"] for row in (await node.run(early))["cursor"]["firstBatch"]] == [0, 89, 90]
        finer = {"collMod": "s", "timeseries": {"bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 60}}
        assert (await node.reply(finer))["code"] == Code.InvalidOptions
        await node.run({"collMod": "s", "timeseries": {"bucketMaxSpanSeconds": 900, "bucketRoundingSeconds": 900}})
        await insert(node, {"_id": 9, "t": at(899)}, {"_id": 10, "t": at(1)})
        begins = sorted(bucket["control"]["min"]["t"] for bucket in await buckets(node))
        assert begins == [at(0), at(0), at(90), at(270)]
        assert len(await found(node)) == 7

    loop(work())


def test_a_long_insert_is_done_in_slices() -> None:
    async def work() -> None:
        node = await made()
        rows = [{"_id": n, "t": at(n / 10), "m": n % 50, "v": n} for n in range(5000)]
        assert (await insert(node, *rows))["n"] == 5000
        counted = await node.run(
            {"aggregate": "s", "pipeline": [{"$group": {"_id": None, "v": {"$sum": "$v"}}}], "cursor": {}}
        )
        assert counted["cursor"]["firstBatch"] == [{"_id": None, "v": sum(range(5000))}]
        assert all(len(bson.encode(each)) < 200_000 for each in await buckets(node))

    loop(work())
