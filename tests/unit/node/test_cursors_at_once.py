"""What cursors give behind a first batch that was found in one step, and what they keep for it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.buffers import BUFFERS
from docstore.node.pipeline import at_once as pipelines_at_once
from docstore.node.read import at_once
from docstore.node.read.sources import kept_source
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.requests_at_once import INDEXES, Calls, everything, patched


@pytest.mark.parametrize(
    ("wanted", "sort"),
    [
        ({"_id": {"$in": [3, 70, 5, 40, 41, 200, 9]}}, {}),
        ({"a": {"$in": [1, 3]}}, {}),
        ({"$or": [{"a": 1}, {"b": 2}]}, {}),
        ({"$or": [{"a": 1}, {"a": 1, "b": 2}, {"a": 2}]}, {}),
        ({"$or": [{"_id": 7}, {"a": 1}]}, {}),
        ({"a": {"$in": [1, 3]}, "b": {"$gt": 0}}, {}),
        ({"a": {"$gte": 1}}, {"a": -1}),
        ({"a": {"$gte": 1}}, {"e": 1}),
    ],
)
@pytest.mark.parametrize("limit", [0, 8])
def test_what_comes_behind_a_first_batch_is_of_the_same_time(
    wanted: dict[str, Any], sort: dict[str, int], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node, rng, served = LocalNode(timeless=True), random.Random(4), Calls(monkeypatch)
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"b": 1}, "name": "b"}]})
        rows = [{"_id": number, "a": number % 4, "b": number % 3, "e": rng.random()} for number in range(90)]
        await node.insert("c", *rows)
        command = {"find": "c", "filter": wanted, "sort": sort, "batchSize": 3, "limit": limit}
        with monkeypatch.context() as patch:
            patched(patch)
            expected, _ = await everything(node, command)
        cursor = (await node.run(command))["cursor"]
        assert served.served
        found = cursor["firstBatch"]
        for turn in range(1000):
            if not cursor["id"]:
                break
            if turn == 0:
                await node.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"a": 1}}, "multi": True}]})
            if turn == 1:
                await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
                await node.insert("c", *({"_id": number, "a": 1} for number in range(90)))
            cursor = (await node.run({"getMore": cursor["id"], "collection": "c", "batchSize": 2}))["cursor"]
            found += cursor["nextBatch"]
        assert found == expected

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": {"a": {"$gte": 1}}, "sort": {"e": 1}, "batchSize": 3},
        {
            "aggregate": "c",
            "pipeline": [{"$match": {"a": {"$gte": 1}}}, {"$sort": {"e": 1}}, {"$addFields": {"f": 1}}],
            "cursor": {"batchSize": 3},
        },
    ],
    ids=["find", "aggregate"],
)
@pytest.mark.parametrize("crowded", [False, True])
def test_what_a_cursor_keeps_counts_among_what_all_of_them_hold(
    command: dict[str, Any], crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node, kept = LocalNode(timeless=True), list[int]()
        monkeypatch.setattr(BUFFERS, "held", 0)
        for module in (at_once, pipelines_at_once):
            monkeypatch.setattr(module, "kept_source", lambda rest: kept.append(len(rest)) or kept_source(rest))
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.insert("c", *({"_id": number, "a": number % 4, "e": -number} for number in range(90)))
        if crowded:
            monkeypatch.setattr(BUFFERS, "limit", 100)
        found, first = await everything(node, command)
        assert kept
        assert not first
        assert [each["_id"] for each in found] == [number for number in range(89, -1, -1) if number % 4]
        opened = (await node.run(command))["cursor"]["id"]
        assert crowded or BUFFERS.held > 1000
        await node.run({"killCursors": "c", "cursors": [opened]})
        assert BUFFERS.held == 0

    loop(work())


@pytest.mark.parametrize("wanted", [1, 9])
def test_a_pipeline_whose_first_batch_is_to_hold_nothing_is_of_the_time_of_its_request(
    wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node, kept = LocalNode(timeless=True), list[int]()
        monkeypatch.setattr(pipelines_at_once, "kept_source", lambda rest: kept.append(len(rest)) or kept_source(rest))
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.insert("c", *({"_id": number, "a": number % 4} for number in range(20)))
        stages = [{"$match": {"a": wanted}}, {"$project": {"a": 1}}]
        command = {"aggregate": "c", "pipeline": stages, "cursor": {"batchSize": 0}}
        cursor = (await node.run(command))["cursor"]
        # A cursor stays, whatever there is.
        assert cursor["id"]
        assert not cursor["firstBatch"]
        assert kept == ([] if wanted == 9 else [5])
        await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
        cursor = (await node.run({"getMore": cursor["id"], "collection": "c"}))["cursor"]
        assert not cursor["id"]
        assert cursor["nextBatch"] == [{"_id": number, "a": 1} for number in range(20) if number % 4 == wanted]

    loop(work())
