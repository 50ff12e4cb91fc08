"""Capped copies of collections keep what their source promises of its documents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.node.local import LocalNode, loop

KEPT: dict[str, Any] = {
    "collation": {"locale": "en", "strength": 2},
    "validator": {"x": {"$gt": 1}},
    "validationLevel": "moderate",
    "validationAction": "error",
    "changeStreamPreAndPostImages": {"enabled": True},
}


@pytest.mark.parametrize(
    "command",
    [{"convertToCapped": "c", "size": 10_000}, {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 10_000}],
)
def test_options_are_kept(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", **KEPT})
        await node.run({"insert": "c", "documents": [{"_id": "Bob", "x": 5}, {"_id": "al", "x": 6}]})
        await node.run({"insert": "c", "documents": [{"_id": "old", "x": 0}], "bypassDocumentValidation": True})
        await node.run(command)
        name = command.get("toCollection", "c")
        listed = await node.run({"listCollections": 1, "filter": {"name": name}})
        options = listed["cursor"]["firstBatch"][0]["options"]
        assert options["capped"] is True
        assert options["collation"]["strength"] == 2
        assert {field: options[field] for field in KEPT if field != "collation"} == {
            field: value for field, value in KEPT.items() if field != "collation"
        }
        assert [document["_id"] for document in await node.documents(name)] == ["Bob", "al", "old"]
        assert await node.documents(name, {"_id": "BOB"}) == [{"_id": "Bob", "x": 5}]
        refused = await node.reply(
            {"insert": name, "documents": [{"_id": "BOB", "x": 9}, {"_id": "new", "x": 0}], "ordered": False}
        )
        assert [error["code"] for error in refused["writeErrors"]] == [11000, 121]

    loop(work())
