"""collMod and the commands that make collections capped, on a node in memory."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.collection.oplog.apply import apply_entry
from docstore.errors import Code
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, entries, read, store_on
from tests.unit.node.local import LocalNode, loop


async def options_of(node: LocalNode, name: str = "c") -> dict[str, Any]:
    (found,) = (await node.run({"listCollections": 1, "filter": {"name": name}}))["cursor"]["firstBatch"]
    options: dict[str, Any] = found["options"]
    return options


def test_validation_is_changed_and_written_down_in_full() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c"})
        await node.run({"collMod": "c", "validator": {"a": 1}})
        assert await options_of(node) == {
            "validator": {"a": 1},
            "validationLevel": "strict",
            "validationAction": "error",
        }
        assert (await node.reply({"insert": "c", "documents": [{"a": 2}]}))["writeErrors"][0]["code"] == 121
        await node.run({"collMod": "c", "validationAction": "warn"})
        assert (await options_of(node))["validationAction"] == "warn"
        await node.run({"collMod": "c", "validator": {}})
        assert "validator" not in await options_of(node)

    loop(work())


def test_the_limits_of_a_capped_collection_are_changed() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "capped": True, "size": 4096})
        await node.insert("c", {"_id": 1}, {"_id": 2}, {"_id": 3})
        await node.run({"collMod": "c", "cappedSize": 300, "cappedMax": 2})
        assert await options_of(node) == {"capped": True, "size": 512, "max": 2}
        await node.insert("c", {"_id": 4})
        assert await node.documents("c") == [{"_id": 3}, {"_id": 4}]

    loop(work())


def test_an_index_is_hidden_and_its_documents_expire() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"t": 1}, "name": "t_1", "expireAfterSeconds": 9}]})
        reply = await node.run({"collMod": "c", "index": {"keyPattern": {"t": 1}, "expireAfterSeconds": 5}})
        assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (9, 5)
        reply = await node.run({"collMod": "c", "index": {"name": "t_1", "hidden": True}})
        assert (reply["hidden_old"], reply["hidden_new"]) == (False, True)
        assert await node.run({"collMod": "c", "index": {"name": "t_1", "hidden": True}}) == {"ok": 1.0}

    loop(work())


def test_a_view_gets_another_definition() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1}, {"_id": 2})
        await node.run({"create": "v", "viewOn": "c"})
        await node.run({"collMod": "v", "viewOn": "c", "pipeline": [{"$match": {"_id": 2}}]})
        assert await node.documents("v") == [{"_id": 2}]
        assert (await node.reply({"collMod": "v", "viewOn": "v"}))["code"] == Code.GraphContainsCycle
        assert (await node.reply({"collMod": "v", "validator": {}}))["code"] == Code.InvalidOptions

    loop(work())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"collMod": "nosuch"}, 26),
        ({"collMod": "c", "viewOn": "x"}, 72),
        ({"collMod": "c", "cappedSize": 100}, 72),
        ({"collMod": "c", "validationLevel": "x"}, 2),
        ({"collMod": "c", "validator": {"$where": "1"}}, 2),
        ({"collMod": "c", "index": {}}, 72),
        ({"collMod": "c", "index": {"name": "_id_"}}, 72),
        ({"collMod": "c", "index": {"name": "_id_", "keyPattern": {"_id": 1}, "hidden": True}}, 72),
        ({"collMod": "c", "index": {"name": "nosuch", "hidden": True}}, 27),
        ({"collMod": "c", "index": {"name": "_id_", "hidden": True}}, 2),
        ({"collMod": "c", "index": {"name": "_id_", "unique": False}}, 2),
        ({"collMod": "c", "expireAfterSeconds": 5}, 72),
        ({"collMod": "c", "dryRun": True}, 72),
        ({"collMod": "c", "changeStreamPreAndPostImages": {"enabled": 1}}, 14),
        ({"collMod": "c", "changeStreamPreAndPostImages": {}}, 40414),
        ({"convertToCapped": "nosuch", "size": 1000}, 26),
        ({"convertToCapped": "c", "size": -1}, 2),
        ({"cloneCollectionAsCapped": "c", "toCollection": "c", "size": 1000}, 48),
        ({"cloneCollectionAsCapped": "c", "size": 1000}, 14),
    ],
)
def test_what_cannot_be_changed_is_refused(command: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c"})
        assert (await node.reply(command))["code"] == code

    loop(work())


def test_a_collection_becomes_capped_with_its_newest_documents_and_no_other_index() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", *({"_id": number, "a": "x" * 100} for number in range(20)))
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        await node.run({"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 300})
        assert [each["_id"] for each in await node.documents("d")] == [16, 17, 18, 19]
        await node.run({"convertToCapped": "c", "size": 1000})
        assert [each["_id"] for each in await node.documents("c")] == list(range(12, 20))
        assert await options_of(node) == {"capped": True, "size": 1024}
        assert node.node.store.namespaces() == ["test.d", "test.c"]
        (index,) = (await node.run({"listIndexes": "c"}))["cursor"]["firstBatch"]
        assert index["name"] == "_id_"

    loop(work())


def test_a_conversion_begins_again_when_the_collection_is_written_to() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": number} for number in range(2000)))
        pauses = iter([True])

        async def pause() -> None:
            if next(pauses, False):
                await node.insert("c", {"_id": "late"})

        node.hurry()
        node.node.scheduler.pause = pause
        await node.run({"convertToCapped": "c", "size": 100_000})
        assert (await node.documents("c"))[-1] == {"_id": "late"}

    loop(work())


def test_changed_options_replicate_and_roll_back() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"create": "c", "capped": True, "size": 4096})
        before = node.node.store.last_optime
        await node.run({"collMod": "c", "cappedSize": 300, "validator": {"a": {"$gt": 1}}})
        store, follower = node.node.store, store_on()
        for entry in entries(store):
            apply_entry(follower, entry)
        ours, theirs = store.collection("test.c"), follower.collection("test.c")
        assert ours is not None
        assert theirs is not None
        assert theirs.options == ours.options
        assert theirs.options.max_bytes == 512
        roll_back(follower, before)
        assert theirs.options.max_bytes == 4096
        assert theirs.options.validator is None
        assert read(theirs, follower.engine) == []
        check(follower)

    loop(work())
