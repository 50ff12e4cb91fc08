"""`$graphLookup`: what is kept between searches and found ahead for many of them changes nothing about the results."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from docstore.aggregation.stages import graph_search
from docstore.buffers import BUFFERS
from tests.unit.node.local import LocalNode, loop

Document = dict[str, Any]
SEARCH = {"from": "c", "startWith": "$next", "connectFromField": "next", "connectToField": "name", "as": "way"}


def graph(seed: int, *, size: int = 150, arrays: bool = False) -> list[Document]:
    """Documents that name others, with circles, dead ends, nulls and names that several have."""
    rng = Random(seed)
    made: list[Document] = []
    for number in range(size):
        following: Any = [rng.randrange(size) for _ in range(rng.randrange(4))]
        if not arrays or rng.random() < 0.4:
            following = rng.choice([*following, None, "nowhere"])
        made.append({"_id": number, "name": rng.choice([number, float(number), number // 2]), "next": following})
        if rng.random() < 0.1:
            made[-1]["name"] = None
    return made


def reached(documents: list[Document], start: Document, most: int | None) -> dict[int, int]:
    """The depths of what is reached, by `_id`."""
    found: dict[int, int] = {}
    asked: list[Any] = []
    frontier, depth = start["next"], 0
    while most is None or depth <= most:
        wanted = [each for each in (frontier if isinstance(frontier, list) else [frontier]) if each not in asked]
        if not wanted:
            break
        asked += wanted
        frontier = []
        for document in documents:
            if document["name"] in wanted and document["_id"] not in found:
                found[document["_id"]] = depth
                frontier += document["next"] if isinstance(document["next"], list) else [document["next"]]
        depth += 1
    return found


@pytest.fixture(params=["room", "no room"])
def _room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "no room":
        monkeypatch.setattr(graph_search, "_KNOWN_BYTES", 3000)
    held = BUFFERS.held
    yield
    assert BUFFERS.held == held


@pytest.mark.usefixtures("_room")
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("most", [None, 0, 2])
def test_each_document_is_reached_at_its_least_depth(indexed: bool, arrays: bool, most: int | None) -> None:
    async def work() -> None:
        node = LocalNode()
        documents = graph(most or 7, arrays=arrays)
        await node.insert("c", *documents)
        if indexed:
            await node.run({"createIndexes": "c", "indexes": [{"key": {"name": 1}, "name": "n"}]}, "test")
        search = SEARCH | {"depthField": "d"} | ({} if most is None else {"maxDepth": most})
        pipeline = [{"$graphLookup": search}]
        reply = await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 1000}}, "test")
        for document in reply["cursor"]["firstBatch"]:
            way = {each["_id"]: each["d"] for each in document["way"]}
            assert way == reached(documents, document, most), document["_id"]
            assert len(way) == len(document["way"])

    loop(work())


def test_what_is_known_comes_in_the_order_of_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for nothing each search asks for itself."""

    async def work() -> list[list[Document]]:
        node = LocalNode()
        await node.insert("c", *graph(5, size=300, arrays=True))
        await node.run({"createIndexes": "c", "indexes": [{"key": {"name": 1}, "name": "n"}]}, "test")
        found = []
        for room in (16 * 1024 * 1024, 0):
            monkeypatch.setattr(graph_search, "_KNOWN_BYTES", room)
            pipeline = [{"$graphLookup": SEARCH}]
            reply = await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 1000}}, "test")
            found.append(reply["cursor"]["firstBatch"])
        return found

    first, second = loop(work())
    assert first == second


def test_what_is_forgotten_for_want_of_room_is_not_looked_for_ahead_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each document of a large graph is read about once by the look ahead, and once by the search."""
    size, calls = 400, 0
    node_of = graph_search.NodeCache.node

    def counted(self: graph_search.NodeCache, document: bytes) -> graph_search.Node:
        nonlocal calls
        calls += 1
        return node_of(self, document)

    monkeypatch.setattr(graph_search, "_KNOWN_BYTES", 100_000)
    monkeypatch.setattr(graph_search.NodeCache, "node", counted)
    rows = [{"_id": number, "next": [(number * 7 + step) % size for step in (0, 13, 26)]} for number in range(size)]

    async def work() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": rows})
        search = SEARCH | {"connectToField": "_id"}
        pipeline = [{"$limit": 1}, {"$graphLookup": search}, {"$project": {"n": {"$size": "$way"}}}]
        reply = await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})
        assert [each["n"] for each in reply["cursor"]["firstBatch"]] == [size]

    loop(work())
    assert calls <= 2.5 * size
