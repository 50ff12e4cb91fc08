"""Where the log is redacted, no line holds a value that a client has sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from bson.int64 import Int64

from docstore import log
from tests.unit.node.local import LocalNode, loop

VALUE = "hidden-value"


@pytest.fixture
def logged() -> Iterator[log.RecentLines]:
    lines = log.RecentLines()
    root, ours = logging.getLogger(), logging.getLogger("docstore")
    level = ours.level
    root.addHandler(lines)
    ours.setLevel(logging.DEBUG)
    log.set_redaction(True)
    yield lines
    log.set_redaction(False)
    ours.setLevel(level)
    root.removeHandler(lines)


def test_no_line_holds_a_value_of_a_client(logged: log.RecentLines) -> None:
    where = {"x": VALUE}
    commands: list[dict[str, Any]] = [
        {"insert": "c", "documents": [{"_id": VALUE, "x": VALUE}, {"_id": VALUE}], "ordered": False},
        {"insert": "c", "documents": [{"x": VALUE, "n": number} for number in range(5)]},
        {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1", "partialFilterExpression": where}]},
        {"createIndexes": "c", "indexes": [{"key": {"x": 1, "y": 1}, "name": "unique", "unique": True}]},
        {"find": "c", "filter": where, "comment": VALUE},
        {"find": "c", "filter": {"x": {"$regex": VALUE}}, "sort": {"n": 1}},
        {"update": "c", "updates": [{"q": where, "u": {"$set": {"y": VALUE}}, "multi": True}]},
        {"findAndModify": "c", "query": where, "update": {"$push": {"y": VALUE}}},
        {"aggregate": "c", "pipeline": [{"$match": where}, {"$group": {"_id": VALUE}}], "cursor": {}},
        {"count": "c", "query": where}, {"distinct": "c", "key": "x", "query": where},
        {"explain": {"find": "c", "filter": where}}, {"find": "c", "filter": {"$expr": {"$toInt": VALUE}}},
        {"delete": "c", "deletes": [{"q": where, "limit": 0}]}, {"nonsense": VALUE}, {"find": "c", "filter": VALUE},
    ]  # fmt: skip

    async def story() -> None:
        node = LocalNode(replicated=True)
        node.dispatcher.services.switches.slow_ms = 0
        for command in commands:
            await node.reply(command)
        await node.run({"insert": "c", "documents": [{"_id": number, "x": VALUE} for number in range(5)]})
        opened = await node.run({"find": "c", "filter": where, "batchSize": 1})
        await node.run({"getMore": Int64(opened["cursor"]["id"]), "collection": "c", "batchSize": 1})
        waiting = {"find": "capped", "filter": where, "tailable": True, "awaitData": True}
        await node.run({"create": "capped", "capped": True, "size": 4096})
        await node.run({"insert": "capped", "documents": [where]})
        await node.run(waiting)
        await asyncio.sleep(0)

    loop(story())
    lines = [json.loads(line) for line in logged.lines]
    slow = [line["attr"]["command"] for line in lines if line["msg"] == "Slow query"]
    assert {"find", "update", "getMore", "aggregate", "explain"} <= {next(iter(command)) for command in slow}
    assert not [line for line in logged.lines if VALUE in line]
