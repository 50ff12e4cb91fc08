"""Reads of views that are answered in one step, against the general way."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.node.commands import aggregate as aggregate_command
from docstore.node.commands import find
from tests.unit.node.local import LocalNode, loop

VIEWS: dict[str, tuple[dict[str, Any], ...]] = {
    "chosen": ({"$match": {"b": {"$lt": 4}}},),
    "twice": ({"$match": {"a": {"$gt": 1}}}, {"$match": {"b": {"$lt": 4}}}),
    "shown": ({"$match": {"b": {"$lt": 4}}}, {"$project": {"a": 1, "z": "$b"}}),
    "last": ({"$match": {"b": {"$lt": 4}}}, {"$sort": {"_id": -1}}, {"$limit": 12}),
    "gathered": ({"$match": {"a": {"$gt": 1}}}, {"$group": {"_id": "$b", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}),
    "joined": (
        {"$match": {"a": 2}},
        {"$sort": {"_id": 1}},
        {"$lookup": {"from": "c", "localField": "b", "foreignField": "a", "as": "l"}},
    ),
    "all": (),
    "timed": ({"$match": {"$expr": {"$gt": ["$$NOW", "$a"]}}}, {"$sort": {"_id": 1}}),
}
READS: tuple[dict[str, Any], ...] = (
    {}, {"filter": {"a": 3}}, {"filter": {"b": 2}}, {"filter": {"a": 3, "$or": [{"b": 1}, {"b": 2}]}},
    {"filter": {"z": {"$gt": 1}}}, {"filter": {"a": {"$gte": 2}}, "sort": {"_id": -1}, "limit": 3},
    {"filter": {"a": 2}, "sort": {"b": 1, "_id": 1}, "skip": 2, "limit": 4}, {"filter": {"a": 2}, "batchSize": 2},
    {"filter": {"a": 3}, "projection": {"b": 1}}, {"filter": {"a": 3}, "projection": {"t": {"$type": "$b"}}},
    {"filter": {"a": 3}, "projection": {"b": {"$slice": 1}}}, {"filter": {"a": 3}, "hint": "a"},
    {"filter": {"$nonsense": 1}}, {"filter": {"a": 3}, "singleBatch": True}, {"filter": {"a": 3}, "batchSize": 0},
    {"filter": {"a": 3}, "collation": {"locale": "en"}}, {"filter": {"a": 3}, "projection": {"r": {"$divide": [1, 0]}}},
)  # fmt: skip
PIPELINES: tuple[list[dict[str, Any]], ...] = (
    [], [{"$match": {"a": 3}}], [{"$match": {"a": {"$gte": 2}}}, {"$sort": {"b": 1, "_id": 1}}, {"$limit": 3}],
    [{"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], [{"$count": "n"}], [{"$nonsense": 1}],
    [{"$collStats": {"count": {}}}], [{"$unionWith": {"coll": "chosen", "pipeline": [{"$match": {"a": 1}}]}}],
)  # fmt: skip


def test_what_a_view_gives_at_once_is_what_its_stages_give(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rng = random.Random(5)
        node = LocalNode()
        indexes = [{"key": {"a": 1}, "name": "a"}, {"key": {"b": 1, "a": -1}, "name": "b_a"}]
        await node.run({"createIndexes": "c", "indexes": indexes})
        rows = [{"_id": number, "a": rng.randrange(6), "b": rng.randrange(8)} for number in range(80)]
        await node.insert("c", *rows)
        for name, stages in VIEWS.items():
            await node.run({"create": name, "viewOn": "c", "pipeline": list(stages)})
        await node.run({"create": "above", "viewOn": "twice", "pipeline": [{"$match": {"_id": {"$lt": 60}}}]})
        await node.run({"create": "folded", "viewOn": "c", "pipeline": [], "collation": {"locale": "en"}})
        served = 0

        def counted(way: Any) -> Any:
            def asked(*arguments: Any) -> bytes | None:
                nonlocal served
                reply: bytes | None = way(*arguments)
                served += reply is not None
                return reply

            return asked

        for name in (*VIEWS, "above", "folded", "missing"):
            commands = [{"find": name, **read} for read in READS]
            commands += [{"aggregate": name, "pipeline": stages, "cursor": {}} for stages in PIPELINES]
            for command in commands:
                with monkeypatch.context() as patch:
                    patch.setattr(find, "find_on_view_at_once", counted(find.find_on_view_at_once))
                    patch.setattr(aggregate_command, "aggregate_at_once", counted(aggregate_command.aggregate_at_once))
                    given = await _everything(node, command)
                with monkeypatch.context() as patch:
                    patch.setattr(find, "find_on_view_at_once", lambda *_: None)
                    patch.setattr(aggregate_command, "aggregate_at_once", lambda *_: None)
                    expected = await _everything(node, command)
                assert _plain(given) == _plain(expected), command
        assert served > 50

    loop(work())


async def _everything(node: LocalNode, command: dict[str, Any]) -> dict[str, Any]:
    """The reply, with what its cursor gives besides; whether there was one is told by the first batch's size."""
    reply = await node.reply(command)
    cursor = reply.get("cursor", {"id": 0})
    name = cursor.get("ns", "").partition(".")[2]
    more: list[Any] = []
    while cursor["id"]:
        cursor = (await node.run({"getMore": cursor["id"], "collection": name}))["cursor"]
        more += cursor["nextBatch"]
    return {"code": reply.get("code"), "ns": name, "first": reply.get("cursor", {}).get("firstBatch"), "more": more}


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """What is the same however it was found: documents without an order of their own, statistics without times."""
    documents = [{key: each[key] for key in each if key != "localTime"} for each in found["first"] or ()]
    sizes = len(documents), len(found["more"])
    return {**found, "first": sorted(map(repr, [*documents, *found["more"]])), "more": sizes}
