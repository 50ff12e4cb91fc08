"""Where a change stream goes on: behind every token, and not behind those that are lost."""

from __future__ import annotations

from typing import Any

import pytest
from bson.timestamp import Timestamp

from docstore.optime import pack_timestamp
from tests.unit.node.local import loop
from tests.unit.node.streaming import Stream, change, kinds, member
from tests.unit.node.transactional import Client


def test_a_stream_goes_on_from_every_token() -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open()
        start = stream.token
        await change(node)
        client = Client(node)
        await client.first({"insert": "c", "documents": [{"_id": 7}, {"_id": 8}]})
        await client.then({"insert": "other", "documents": [{"_id": 9}]})
        await client.commit()
        events = await stream.events()
        assert kinds(events[4:]) == ["insert", "insert"]
        assert events[4]["clusterTime"] == events[5]["clusterTime"]
        assert events[4]["lsid"]["id"] == client.lsid["id"]
        for place, event in enumerate(events):
            again = await Stream(node).open(resumeAfter=event["_id"])
            assert again.cursor["firstBatch"] == events[place + 1 :]
        assert (await Stream(node).open(resumeAfter=start)).cursor["firstBatch"] == events
        assert (await Stream(node).open(startAtOperationTime=events[2]["clusterTime"])).cursor["firstBatch"] == events[
            2:
        ]

    loop(work())


def test_a_token_after_each_batch_misses_and_repeats_nothing() -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open()
        first = stream.token
        for identity in range(20):
            await node.insert("c" if identity % 3 else "other", {"_id": identity})
        wanted = [identity for identity in range(20) if identity % 3]
        told: list[int] = []
        token = first
        while len(told) < len(wanted):
            part = await Stream(node).open(batch_size=2, resumeAfter=token)
            told += [event["documentKey"]["_id"] for event in part.cursor["firstBatch"]]
            token = part.token
        assert told == wanted

    loop(work())


@pytest.mark.parametrize(
    "stage", [{"$project": {"_id": 0}}, {"$set": {"_id": 1}}, {"$replaceWith": {"a": 1}}, {"$unset": "_id._data"}]
)
def test_events_keep_their_tokens(stage: dict[str, Any]) -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open(stage)
        await node.insert("c", {"_id": 1})
        refused = await stream.more()
        assert (refused["code"], refused["errorLabels"]) == (280, ["NonResumableChangeStreamError"])

    loop(work())


def test_a_stream_that_begins_later_waits() -> None:
    async def work() -> None:
        node = member()
        await node.insert("c", {"_id": 1})
        stream = await Stream(node).open(startAtOperationTime=Timestamp(4000000000, 1))
        token = stream.token
        await node.insert("c", {"_id": 2})
        assert await stream.events() == []
        assert stream.token == token
        assert node.node.store.oplog is not None
        node.node.store.oplog.observe(pack_timestamp(Timestamp(4000000000, 5)))
        await node.insert("c", {"_id": 3})
        assert [event["documentKey"]["_id"] for event in await stream.events()] == [3]

    loop(work())


def test_places_that_are_lost() -> None:
    async def work() -> None:
        node = member()
        slow = await Stream(node).open()
        for identity in range(20):
            await node.insert("c", {"_id": identity})
        oplog = node.node.store.oplog
        assert oplog is not None
        oplog.max_bytes, oplog.commit_limit = 1, oplog.last.timestamp
        while oplog.truncate_old():
            continue
        for refused in (await slow.more(), await Stream(node).reply(startAtOperationTime=Timestamp(1, 1))):
            assert (refused["code"], refused["errorLabels"]) == (286, ["NonResumableChangeStreamError"])

    loop(work())


def test_a_token_that_is_not_met() -> None:
    async def work() -> None:
        node = member()
        other = await Stream(node, "other").open()
        await node.insert("other", {"_id": 1})
        (event,) = await other.events()
        stream = await Stream(node).open(resumeAfter=event["_id"])
        await node.insert("c", {"_id": 1})
        assert (await stream.more())["code"] == 280

    loop(work())
