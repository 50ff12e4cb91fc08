"""Collections and indexes made, listed, renamed and dropped on a node in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop


def index(name: str, *keys: str, **options: Any) -> dict[str, Any]:
    return {"key": dict.fromkeys(keys, 1), "name": name, **options}


async def indexes_of(node: LocalNode) -> list[str]:
    found = await node.run({"listIndexes": "c"})
    return [spec["name"] for spec in found["cursor"]["firstBatch"]]


def test_a_collection_is_made_once() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c"})
        assert (await node.reply({"create": "c"}))["code"] == Code.NamespaceExists
        found = (await node.run({"listCollections": 1}))["cursor"]
        assert (found["ns"], [entry["name"] for entry in found["firstBatch"]]) == ("test.$cmd.listCollections", ["c"])

    loop(work())


def test_encrypted_collections_are_refused() -> None:
    async def work() -> None:
        node = LocalNode()
        assert (await node.reply({"create": "c", "encryptedFields": {"fields": []}}))["code"] == Code.NotImplemented
        assert node.node.store.namespaces() == []

    loop(work())


def test_lists_can_be_filtered_and_shortened() -> None:
    async def work() -> None:
        node = LocalNode()
        for name in ("b", "a", "c"):
            await node.run({"create": name})
        command = {"listCollections": 1, "filter": {"name": {"$gte": "b"}}, "nameOnly": True}
        found = (await node.run(command))["cursor"]["firstBatch"]
        assert found == [{"name": "b", "type": "collection"}, {"name": "c", "type": "collection"}]
        databases = await node.run({"listDatabases": 1, "nameOnly": True}, "admin")
        assert [row["name"] for row in databases["databases"]] == ["admin", "config", "local", "test"]

    loop(work())


def test_dropping_names_what_was_there() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x")]})
        assert await node.run({"drop": "c"}) == {"nIndexesWas": 2, "ns": "test.c", "ok": 1.0}
        assert (await node.reply({"drop": "c"}))["code"] == Code.NamespaceNotFound
        await node.insert("c", {})
        await node.run({"dropDatabase": 1})
        assert node.node.store.databases() == []

    loop(work())


def test_a_collection_is_renamed_over_another_only_when_asked_to() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("a", {"_id": 1})
        await node.insert("b", {"_id": 2})
        command = {"renameCollection": "test.a", "to": "test.b"}
        assert (await node.reply(command, "admin"))["code"] == Code.NamespaceExists
        await node.run({**command, "dropTarget": True}, "admin")
        assert await node.documents("b") == [{"_id": 1}]
        assert (await node.reply(command, "admin"))["code"] == Code.NamespaceNotFound

    loop(work())


def test_what_a_filter_with_a_name_lists_is_what_it_would_pick_of_the_whole_list() -> None:
    async def work() -> None:
        node = LocalNode()
        for name in "abc":
            await node.run({"create": name, **({"capped": True, "size": 4096} if name == "b" else {})})
        await node.run({"create": "v", "viewOn": "a", "pipeline": []})
        await node.run({"collMod": "c", "validator": {"x": {"$gt": 1}}})
        everything = (await node.run({"listCollections": 1}))["cursor"]["firstBatch"]
        assert everything[2]["options"]["validator"] == {"x": {"$gt": 1}}
        conditions: list[tuple[dict[str, Any], set[str]]] = [
            ({"name": "a"}, {"a"}),
            ({"name": "v"}, {"v"}),
            ({"name": {"$eq": "c"}}, {"c"}),
            ({"name": "b", "options.capped": True}, {"b"}),
            ({"name": "a", "options.capped": True}, set()),
            ({"$and": [{"name": "a"}, {"name": "b"}]}, set()),
            ({"$or": [{"name": "a"}, {"name": "b"}]}, {"a", "b"}),
            ({"name": {"$ne": "a"}}, {"b", "c", "v", "system.views"}),
            ({"name": {"$in": ["a", "v"]}}, {"a", "v"}),
            ({"name": 1}, set()),
            ({"name": "missing"}, set()),
        ]
        for condition, names in conditions:
            for options in ({}, {"nameOnly": True}):
                found = await node.run({"listCollections": 1, "filter": condition, **options})
                listed = [each for each in everything if each["name"] in names]
                if options and "options.capped" not in condition:
                    assert [each["name"] for each in found["cursor"]["firstBatch"]] == [each["name"] for each in listed]
                elif not options:
                    assert found["cursor"]["firstBatch"] == listed

    loop(work())


def test_a_database_that_is_not_there_is_dropped_without_an_entry() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        before = node.node.store.last_optime
        assert await node.run({"dropDatabase": 1}, "nothing")
        assert node.node.store.last_optime == before
        assert await node.run({"dropDatabase": 1})
        assert node.node.store.last_optime > before

    loop(work())


@pytest.mark.parametrize("replicated", [False, True])
def test_a_member_of_a_set_says_the_quorum_of_a_build_before_the_note(replicated: bool) -> None:
    async def work() -> None:
        node = LocalNode(replicated=replicated)
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x")]})
        told = await node.run({"createIndexes": "c", "indexes": [index("x_1", "x"), index("y_1", "y")]})
        quorum = ["commitQuorum"] if replicated else []
        numbers = ["numIndexesBefore", "numIndexesAfter"]
        assert list(told)[:-1] == [*numbers, "createdCollectionAutomatically", *quorum, "note"]
        assert told.get("commitQuorum", "votingMembers") == "votingMembers"
        assert "commitQuorum" not in await node.run({"createIndexes": "c", "indexes": [index("x_1", "x")]})

    loop(work())


def test_indexes_are_created_once_and_counted() -> None:
    async def work() -> None:
        node = LocalNode()
        command = {"createIndexes": "c", "indexes": [index("x_1", "x"), index("y_1", "y", unique=True)]}
        first = await node.run(command)
        assert (first["numIndexesBefore"], first["numIndexesAfter"], first["createdCollectionAutomatically"]) == (
            1,
            3,
            True,
        )
        again = await node.run(command)
        assert again["note"] == "all indexes already exist"
        assert await indexes_of(node) == ["_id_", "x_1", "y_1"]

    loop(work())


def test_of_two_indexes_that_are_built_at_once_and_hold_the_same_one_is_refused() -> None:
    async def work() -> None:
        node = LocalNode()
        for first in range(0, 5000, 1000):
            await node.run({"insert": "c", "documents": [{"x": first + number} for number in range(1000)]})
        names = ("one", "other")
        replies = await asyncio.gather(
            *(node.reply({"createIndexes": "c", "indexes": [index(name, "x")]}) for name in names)
        )
        assert sorted((reply["ok"], reply.get("code")) for reply in replies) == [
            (0, Code.IndexOptionsConflict),
            (1, None),
        ]
        made = [name for name, reply in zip(names, replies, strict=True) if reply["ok"]]
        assert await indexes_of(node) == ["_id_", *made]
        collection = node.node.store.collection("test.c")
        assert collection is not None
        assert not collection.building

    loop(work())


def test_who_asks_for_an_index_that_is_being_built_waits_for_it() -> None:
    async def work() -> None:
        node = LocalNode()
        for first in range(0, 20_000, 1000):
            await node.run({"insert": "c", "documents": [{"x": first + number} for number in range(1000)]})
        wanted = [[index("x_1", "x")], [index("x_1", "x"), index("y_1", "y")], [index("x_1", "x")]]
        replies = await asyncio.gather(*(node.reply({"createIndexes": "c", "indexes": each}) for each in wanted))
        assert [(reply["ok"], reply["numIndexesBefore"]) for reply in replies] == [(1, 1), (1, 2), (1, 2)]
        assert [reply.get("note") for reply in replies] == [
            None,
            "index already exists",
            "all indexes already exist",
        ]
        assert await indexes_of(node) == ["_id_", "x_1", "y_1"]

    loop(work())


def test_who_waits_for_a_build_that_fails_builds_the_index_itself() -> None:
    async def work() -> None:
        node = LocalNode()
        for first in range(0, 5000, 1000):
            documents = [{"x": first + number, "y": 1} for number in range(1000)]
            await node.run({"insert": "c", "documents": documents})
        wanted = [[index("x_1", "x"), index("y_1", "y", unique=True)], [index("x_1", "x")]]
        replies = await asyncio.gather(*(node.reply({"createIndexes": "c", "indexes": each}) for each in wanted))
        assert [reply.get("code") for reply in replies] == [Code.DuplicateKey, None]
        assert await indexes_of(node) == ["_id_", "x_1"]

    loop(work())


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (index("x_1", "y"), Code.IndexKeySpecsConflict),
        (index("x_1", "x", unique=True), Code.IndexKeySpecsConflict),
        (index("other", "x"), Code.IndexOptionsConflict),
        (index("h", "x", expireAfterSeconds=5), Code.IndexOptionsConflict),
        ({"key": {"x": "nosuch"}, "name": "n"}, Code.CannotCreateIndex),
        ({"key": {"x": 1}}, Code.FailedToParse),
    ],
)
def test_indexes_that_clash_or_are_unknown_are_refused(spec: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x")]})
        assert (await node.reply({"createIndexes": "c", "indexes": [spec]}))["code"] == code
        assert await indexes_of(node) == ["_id_", "x_1"]

    loop(work())


def test_an_index_over_documents_is_built_in_slices_and_refused_when_they_clash() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", *({"_id": n, "x": n, "y": 1} for n in range(3000)))
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x", unique=True)]})
        refused = await node.reply({"createIndexes": "c", "indexes": [index("y_1", "y", unique=True)]})
        assert (refused["code"], refused["keyValue"]) == (Code.DuplicateKey, {"y": 1})
        assert await indexes_of(node) == ["_id_", "x_1"]
        assert (await node.run({"validate": "c"}))["valid"]

    loop(work())


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("x_1", ["_id_", "y_1"]),
        ("*", ["_id_"]),
        (["x_1", "y_1"], ["_id_"]),
        ({"y": 1}, ["_id_", "x_1"]),
    ],
)
def test_indexes_are_dropped_by_name_list_key_or_all(asked: Any, left: list[str]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x"), index("y_1", "y")]})
        assert (await node.run({"dropIndexes": "c", "index": asked}))["nIndexesWas"] == 3
        assert await indexes_of(node) == left

    loop(work())


@pytest.mark.parametrize(
    ("asked", "code"), [("nosuch", Code.IndexNotFound), ("_id_", Code.InvalidOptions), ({"z": 1}, Code.IndexNotFound)]
)
def test_indexes_that_are_not_there_or_must_stay_are_not_dropped(asked: Any, code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x")]})
        assert (await node.reply({"dropIndexes": "c", "index": asked}))["code"] == code

    loop(work())


def test_statistics_count_what_is_there() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n} for n in range(10)))
        stats = await node.run({"collStats": "c"})
        assert (stats["count"], stats["size"], stats["avgObjSize"], stats["nindexes"]) == (10, 140, 14, 1)
        assert (await node.run({"collStats": "nosuch"}))["count"] == 0
        totals = await node.run({"dbStats": 1})
        assert (totals["collections"], totals["objects"], totals["dataSize"]) == (1, 10, 140.0)

    loop(work())


def test_hashes_depend_on_the_documents_and_not_on_their_order() -> None:
    async def work() -> None:
        one, other = LocalNode(), LocalNode()
        await one.insert("c", {"_id": 1}, {"_id": 2})
        await other.insert("c", {"_id": 2}, {"_id": 1})
        assert (await one.run({"dbHash": 1}))["md5"] == (await other.run({"dbHash": 1}))["md5"]
        await other.insert("c", {"_id": 3})
        assert (await one.run({"dbHash": 1}))["md5"] != (await other.run({"dbHash": 1}))["md5"]

    loop(work())


def test_indexes_are_built_anew_on_a_standalone_only() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": number, "x": [number, -number]} for number in range(50)))
        await node.run({"createIndexes": "c", "indexes": [index("x_1", "x"), index("y_1", "y", sparse=True)]})
        collection = node.node.store.collection("test.c")
        assert collection is not None
        before = collection.indexes["x_1"].ident

        reply = await node.run({"reIndex": "c"})

        assert (reply["nIndexesWas"], reply["nIndexes"]) == (3, 3)
        assert [each["name"] for each in reply["indexes"]] == ["_id_", "x_1", "y_1"]
        assert collection.indexes["x_1"].ident != before
        assert before in node.node.store.catalog.garbage
        assert (await node.run({"validate": "c"}))["valid"]
        assert (await node.reply({"reIndex": "nosuch"}))["code"] == Code.NamespaceNotFound
        assert (await LocalNode(replicated=True).reply({"reIndex": "c"}))["code"] == Code.IllegalOperation

    loop(work())


def test_a_refused_change_tells_of_a_write_concern_that_cannot_be_met() -> None:
    async def story() -> None:
        node = LocalNode(replicated=True)
        reply = await node.reply({"drop": "none", "writeConcern": {"w": 9}})
        assert reply["code"] == 26
        assert reply["writeConcernError"]["code"] == 64

    loop(story())
