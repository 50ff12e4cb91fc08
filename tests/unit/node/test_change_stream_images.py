"""Images of documents before and after their changes: which are kept, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from bson.timestamp import Timestamp

from docstore.collection.oplog.pre_images import remove_pre_images
from docstore.node.cluster_parameters import expired_before
from tests.unit.node.local import loop
from tests.unit.node.streaming import Stream, change, member
from tests.unit.node.transactional import Client


def test_images_of_a_collection_that_keeps_them() -> None:
    async def work() -> None:
        node = member()
        await node.run({"create": "c", "changeStreamPreAndPostImages": {"enabled": True}})
        stream = await Stream(node).open(fullDocument="required", fullDocumentBeforeChange="required")
        client = Client(node)
        await client.first({"insert": "c", "documents": [{"_id": 5, "n": 1}]})
        for _ in range(2):
            await client.then({"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$inc": {"n": 1}}}]})
        await client.commit()
        await change(node)
        events = await stream.events()
        images = [(event.get("fullDocumentBeforeChange"), event.get("fullDocument")) for event in events]
        first = {"_id": 1, "a": {"b": 1, "c": 1}, "l": [1]}
        second = {"_id": 1, "a": {"b": 2, "c": 1}, "l": [1, 2]}
        assert images == [
            (None, {"_id": 5, "n": 1}), ({"_id": 5, "n": 1}, {"_id": 5, "n": 2}),
            ({"_id": 5, "n": 2}, {"_id": 5, "n": 3}),
            (None, first), (first, second), (second, {"_id": 1, "x": 1}), ({"_id": 1, "x": 1}, None),
        ]  # fmt: skip

    loop(work())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_batch_that_is_full_before_a_document_is_looked_up(size: int) -> None:
    async def work() -> None:
        node = member()
        stream = await Stream(node).open(fullDocument="updateLookup")
        await node.insert("c", {"_id": 1, "n": 1})
        await node.insert("c", {"_id": 2, "n": 1})
        await node.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"n": 2}}, "multi": True}]})
        found: list[dict[str, Any]] = []
        while batch := await stream.events(batchSize=size):
            assert len(batch) <= size
            found += batch
        assert [event["fullDocument"]["n"] for event in found] == [1, 1, 2, 2]

    loop(work())


def test_images_that_are_not_kept() -> None:
    async def work() -> None:
        node = member()
        lookup = await Stream(node).open(fullDocument="updateLookup")
        available = await Stream(node).open(fullDocument="whenAvailable", fullDocumentBeforeChange="whenAvailable")
        full = await Stream(node).open(fullDocument="required")
        before = await Stream(node).open(fullDocumentBeforeChange="required")
        await node.insert("c", {"_id": 1, "n": 1})
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]})
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 3}}}]})
        assert [event["fullDocument"] for event in await lookup.events()] == [
            {"_id": 1, "n": 1}, {"_id": 1, "n": 3}, {"_id": 1, "n": 3},
        ]  # fmt: skip
        shown = await available.events()
        assert shown[1]["fullDocument"] is None
        assert shown[1]["fullDocumentBeforeChange"] is None
        for stream in (full, before):
            assert (await stream.more())["code"] == 47

    loop(work())


def test_images_go_with_the_log_or_when_their_time_is_over() -> None:
    async def work() -> None:
        node = member()
        store = node.node.store
        assert store.oplog is not None
        await node.run({"create": "c", "changeStreamPreAndPostImages": {"enabled": True}})
        await change(node)
        asked = {"fullDocumentBeforeChange": "required", "startAtOperationTime": Timestamp(1, 1)}
        await Stream(node).open(**asked)
        setting = {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 100}}}
        await node.run({"setClusterParameter": setting}, "admin")
        (shown,) = (await node.run({"getClusterParameter": "*"}, "admin"))["clusterParameters"]
        assert shown["preAndPostImages"] == {"expireAfterSeconds": 100}
        now = node.node.wall_clock()
        first = store.oplog.first.timestamp
        remove_pre_images(store.engine, first, expired_before(store, now), float("inf"))
        await Stream(node).open(**asked)
        remove_pre_images(store.engine, first, expired_before(store, now + 200), float("inf"))
        assert (await Stream(node).reply(**asked))["code"] == 47

    loop(work())


@pytest.mark.parametrize(
    ("parameter", "code"),
    [
        ({"nope": {}}, 20),
        ({"changeStreamOptions": 1}, 20),
        ({"changeStreamOptions": {}}, 2),
        ({"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 0}}}, 2),
        ({"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": "on"}}}, 2),
    ],
)
def test_parameters_that_are_refused(parameter: dict[str, Any], code: int) -> None:
    async def work() -> None:
        assert (await member().reply({"setClusterParameter": parameter}, "admin"))["code"] == code

    loop(work())
