"""A request that has been answered is gone at once: nothing of it waits for the garbage collector.

A few objects a request hardly ever set the collector off, and each may hold megabytes of documents or a snapshot.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping
from typing import Any

import bson
import pytest

from tests.unit.node.local import LocalNode

_DOCUMENTS = [bson.encode({"_id": number, "a": number % 3}) for number in range(400)]

REQUESTS: dict[str, Mapping[str, Any]] = {
    "insert of one": {"insert": "new", "documents": [{"a": 1}]},
    "duplicate": {"insert": "c", "documents": [{"_id": 1}]},
    "duplicates": {"insert": "c", "ordered": False, "documents": [{"_id": 1}, {"_id": 2}, {"_id": -1}]},
    "find": {"find": "c", "filter": {"a": 1}, "batchSize": 300},
    "sorted find": {"find": "c", "sort": {"a": 1, "_id": -1}, "batchSize": 500},
    "wrong filter": {"find": "c", "filter": {"a": {"$nope": 1}}},
    "group": {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a", "n": {"$sum": 1}}}], "cursor": {}},
    "lookup": {
        "aggregate": "c",
        "pipeline": [
            {"$limit": 5},
            {"$lookup": {"from": "c", "localField": "a", "foreignField": "_id", "as": "b"}},
            {"$facet": {"n": [{"$count": "n"}], "s": [{"$sort": {"a": 1}}]}},
        ],
        "cursor": {},
    },
    "out": {"aggregate": "c", "pipeline": [{"$out": "copy"}], "cursor": {}},
    "update": {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$inc": {"n": 1}}, "multi": True}]},
    "failing update": {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"_id": 4}}}]},
    "delete": {"delete": "c", "deletes": [{"q": {"a": 2}, "limit": 0}]},
    "findAndModify": {"findAndModify": "c", "query": {"_id": 3}, "update": {"$set": {"b": 1}}},
    "distinct": {"distinct": "c", "key": "a"},
    "validate": {"validate": "c"},
    "index": {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
    "unknown": {"nope": 1},
}


@pytest.fixture
def collector() -> Iterator[None]:
    """Collects only when asked to, only what the test made, and keeps what it finds in `gc.garbage`."""
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        # What was frozen stays so: most of it was before.
        gc.enable()


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.usefixtures("collector")
def test_nothing_waits_for_the_collector(name: str) -> None:
    async def scenario() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": [bson.decode(raw) for raw in _DOCUMENTS]})
        for hurried in (False, True):
            if hurried:
                node.hurry()
            await node.reply(REQUESTS[name])
            gc.collect()
            kinds = {type(thing).__qualname__ for thing in gc.garbage}
            assert not any(kind.endswith(("Context", "Snapshot")) for kind in kinds), (name, hurried, kinds)

    asyncio.run(scenario())


def test_a_request_read_before_keeps_no_documents() -> None:
    """What is remembered of a request, to read the next one like it, are not the documents that came with it."""

    async def scenario() -> None:
        node = LocalNode()
        for start in (0, 100):
            documents = _DOCUMENTS[start : start + 100]
            assert (await node.reply({"insert": "c"}, sequences={"documents": documents}))["n"] == 100
            assert not [
                found for found in gc.get_referrers(documents) if isinstance(found, dict) and "documents" in found
            ]

    asyncio.run(scenario())
