"""Collections in which a node notes what it has to finish: nobody else writes them, whatever their rights."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code
from docstore.namespace import OWN_NOTES
from tests.unit.node.local import LocalNode, loop


def writes(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Commands that write a collection of `config`, and the databases to which they are sent."""
    target = {"db": "config", "coll": name}
    return [
        ("config", {"insert": name, "documents": [{"_id": 1}]}),
        ("config", {"update": name, "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}]}),
        ("config", {"delete": name, "deletes": [{"q": {}, "limit": 0}]}),
        ("config", {"findAndModify": name, "query": {}, "update": {"$set": {"a": 1}}, "upsert": True}),
        ("config", {"create": name}),
        ("config", {"drop": name}),
        ("config", {"createIndexes": name, "indexes": [{"key": {"a": 1}, "name": "a_1", "expireAfterSeconds": 1}]}),
        ("config", {"convertToCapped": name, "size": 1000}),
        ("config", {"cloneCollectionAsCapped": "source", "toCollection": name, "size": 1000}),
        ("admin", {"renameCollection": "config.source", "to": f"config.{name}"}),
        ("admin", {"renameCollection": f"config.{name}", "to": "config.target"}),
        ("test", {"aggregate": "source", "pipeline": [{"$merge": {"into": target}}], "cursor": {}}),
        ("test", {"aggregate": "source", "pipeline": [{"$out": target}], "cursor": {}}),
        (
            "admin",
            {"bulkWrite": 1, "ops": [{"insert": 0, "document": {"_id": 1}}], "nsInfo": [{"ns": f"config.{name}"}]},
        ),
        (
            "test",
            {
                "mapReduce": "source", "map": "function() { emit(1, 1) }", "reduce": "function() {}",
                "out": {"replace": name, "db": "config"},
            },
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("namespace", sorted(OWN_NOTES))
def test_no_client_writes_them(namespace: str) -> None:
    async def work() -> None:
        node = LocalNode()
        for database in ("test", "config"):
            await node.run({"insert": "source", "documents": [{"_id": 1}]}, database)
        for database, command in writes(namespace.removeprefix("config.")):
            reply = await node.reply(command, database)
            refusals = [reply, *reply.get("writeErrors", ()), *reply.get("cursor", {}).get("firstBatch", ())]
            assert any(refusal.get("code") for refusal in refusals), (command, reply)
        assert node.node.store.collection(namespace) is None

    loop(work())


def test_that_of_the_log_and_the_sets_state_neither() -> None:
    async def work() -> None:
        node = LocalNode()
        for name in ("oplog.rs", "replset.minvalid", "replset.election", "system.replset"):
            refused = await node.reply({"insert": name, "documents": [{"_id": 1}]}, "local")
            assert refused["code"] == Code.InvalidNamespace

    loop(work())
