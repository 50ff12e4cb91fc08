"""Commands about a whole database, where it has more collections than one slice or one unit takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.node.local import LocalNode, loop

COLLECTIONS = 300


async def _made(replicated: bool) -> LocalNode:
    made = LocalNode(replicated=replicated)
    for number in range(COLLECTIONS):
        await made.run({"create": f"c{number:03}"}, "many")
    await made.run({"create": "kept"}, "other")
    return made


async def _listed(made: LocalNode, command: dict[str, Any], batch_size: int) -> list[str]:
    reply = await made.run({"listCollections": 1, "cursor": {"batchSize": batch_size}, **command}, "many")
    names = [entry["name"] for entry in reply["cursor"]["firstBatch"]]
    while reply["cursor"]["id"]:
        more = {"getMore": reply["cursor"]["id"], "collection": "$cmd.listCollections", "batchSize": batch_size}
        reply = await made.run(more, "many")
        names += [entry["name"] for entry in reply["cursor"]["nextBatch"]]
    return names


@pytest.mark.parametrize("replicated", [False, True])
def test_a_database_of_many_collections_is_listed_and_dropped(replicated: bool) -> None:
    async def scenario() -> None:
        made = await _made(replicated)
        names = [f"c{number:03}" for number in range(COLLECTIONS)]
        made.hurry()
        for batch_size in (7, 1000):
            assert await _listed(made, {}, batch_size) == names
            wanted = {"filter": {"name": {"$regex": "5$"}}, "nameOnly": True}
            assert await _listed(made, wanted, batch_size) == [name for name in names if name.endswith("5")]
        assert (await made.run({"dbStats": 1}, "many"))["collections"] == COLLECTIONS
        assert (await made.run({"dropDatabase": 1}, "many"))["ok"] == 1
        assert await _listed(made, {}, 10) == []
        listed = await made.run({"listDatabases": 1}, "admin")
        assert [each["name"] for each in listed["databases"]] == ["admin", "config", "local", "other"]
        made.node.store.reclaim(float("inf"))

    loop(scenario())


def test_the_last_collection_of_a_batch_ends_the_list() -> None:
    async def scenario() -> None:
        made = await _made(replicated=False)
        reply = await made.run({"listCollections": 1, "cursor": {"batchSize": COLLECTIONS}}, "many")
        assert len(reply["cursor"]["firstBatch"]) == COLLECTIONS
        assert reply["cursor"]["id"] == 0

    loop(scenario())


def test_a_name_that_is_asked_for_is_looked_up_and_found_as_in_the_whole_list() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"create": "plain"})
        await node.run({"create": "a.b", "clusteredIndex": {"key": {"_id": 1}, "unique": True}})
        await node.run({"create": "seen", "viewOn": "plain", "pipeline": [{"$match": {"a": 1}}]})
        await node.run({"create": "long", "viewOn": "plain", "pipeline": [{"$match": {"a": "x" * 2_000}}]})
        await node.run({"create": "measured", "timeseries": {"timeField": "t"}, "expireAfterSeconds": 5})
        for database in ("test", "local"):
            command = {"listCollections": 1}
            everything = (await node.run(command, database))["cursor"]["firstBatch"]
            assert len(everything) == (7 if database == "test" else 1)
            for entry in everything:
                found = await node.run({**command, "filter": {"name": entry["name"]}}, database)
                assert found["cursor"]["firstBatch"] == [entry]
                found = await node.run({**command, "filter": {"name": entry["name"]}, "nameOnly": True}, database)
                assert found["cursor"]["firstBatch"] == [{"name": entry["name"], "type": entry["type"]}]
            for name in ("", "b", "test.plain", "plain.", "nothing", None, 5):
                found = await node.run({**command, "filter": {"name": name}}, database)
                assert found["cursor"]["firstBatch"] == []
        # What is known of a view is forgotten with its definition.
        await node.run({"collMod": "seen", "viewOn": "plain", "pipeline": []})
        (entry,) = (await node.run({"listCollections": 1, "filter": {"name": "seen"}}))["cursor"]["firstBatch"]
        assert entry["options"]["pipeline"] == []

    loop(work())
