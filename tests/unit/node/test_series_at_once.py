"""Time-series collections: what is done at once is what the general way does."""

from __future__ import annotations

import asyncio
import datetime
from random import Random
from typing import Any

import bson
import pytest

from docstore.node.pipeline import at_once
from docstore.node.timeseries import reading
from tests.unit.node.local import LocalNode, loop, session

BEGIN = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000)
VALUES: tuple[Any, ...] = (
    0, 1, 2, 2.5, -1, float("nan"), None, "a", "b", True, [1, 5], [], {"p": 1}, {"p": "x"}, [{"p": 2}],
    bson.Int64(2), bson.Decimal128("1.5"), bson.Decimal128("NaN"), bson.Regex("a"), BEGIN,
)  # fmt: skip
METADATA: tuple[Any, ...] = ({"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 2}, "k", 5, None, [1, 2])


def moment(rng: Random) -> datetime.datetime:
    return BEGIN + datetime.timedelta(minutes=rng.randrange(-200, 200), seconds=rng.choice([0, 0, 30]))


def measurement(rng: Random, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"_id": number, "t": moment(rng)}
    if rng.random() < 0.9:
        row["m"] = rng.choice(METADATA)
    for name in "abc":
        if rng.random() < 0.7:
            row[name] = rng.choice(VALUES) if rng.random() < 0.1 else rng.randrange(6)
    return row


def condition(rng: Random, depth: int = 0) -> dict[str, Any]:
    kind = rng.randrange(12)
    if kind < 3:
        low, high = sorted((moment(rng), moment(rng)))
        return {"t": {rng.choice(["$gt", "$gte"]): low, rng.choice(["$lt", "$lte"]): high}}
    if kind == 3:
        return {"t": rng.choice([moment(rng), {"$lt": moment(rng)}, {"$gte": moment(rng)}, {"$ne": moment(rng)}, 5])}
    if kind < 6:
        return rng.choice([{"m.x": rng.choice([1, 2])}, {"m": rng.choice(METADATA)}, {"m.y": {"$gt": 1}}])
    if kind == 6 and depth < 2:
        return {rng.choice(["$or", "$and", "$nor"]): [condition(rng, depth + 1) for _ in range(2)]}
    path = rng.choice(["a", "b", "c", "a.p", "a.0", "d", "_id"])
    value = rng.choice(VALUES) if rng.random() < 0.4 else rng.randrange(6)
    operator = rng.choice(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne", "$in", "$exists", "$expr", "$not"])
    if operator == "$expr":
        return {"$expr": {"$gt": [f"${path}", value]}}
    if operator == "$not":
        return {path: {"$not": {"$gt": value}}}
    if operator == "$in" or isinstance(value, bson.Regex):
        return {path: {"$in": [value, rng.randrange(6)]}}
    return {path: {operator: bool(value) if operator == "$exists" else value}}


def asked(rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(rng.randrange(4)):
        found |= condition(rng)
    return found


STAGES: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"$sort": {"t": -1}}, {"$limit": 1}],
    [{"$sort": {"t": 1}}, {"$limit": 3}],
    [{"$sort": {"t": -1, "_id": 1}}, {"$skip": 2}, {"$limit": 5}],
    [{"$sort": {"a": 1}}, {"$limit": 3}],
    [{"$limit": 7}],
    [{"$group": {"_id": 1, "n": {"$sum": 1}}}],
    [{"$count": "n"}],
    [{"$group": {"_id": "$m.x", "mean": {"$avg": "$a"}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
    [
        {"$group": {"_id": {"$dateTrunc": {"date": "$t", "unit": "hour"}}, "most": {"$max": "$b"}}},
        {"$sort": {"_id": 1}},
    ],
    [{"$project": {"t": 1, "a": 1, "_id": 0}}, {"$sort": {"t": 1}}],
    [{"$match": {"b": {"$gt": 2}}}, {"$project": {"m": 1}}],
    [{"$addFields": {"twice": {"$add": ["$_id", "$_id"]}}}],
)


async def filled(rng: Random, rows: list[dict[str, Any]], indexes: list[dict[str, Any]]) -> LocalNode:
    node = LocalNode()
    await node.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}})
    if indexes:
        await node.run({"createIndexes": "s", "indexes": indexes})
    at = 0
    while at < len(rows):
        some = rng.randrange(1, 40)
        await node.reply({"insert": "s", "documents": rows[at : at + some], "ordered": False})
        at += some
    return node


@pytest.mark.parametrize("key", [None, {"m.x": 1, "t": -1}, {"a": 1}, {"t": 1}])
@pytest.mark.parametrize("seed", range(6))
def test_measurements_read_in_a_step_are_those_that_are_read_otherwise(
    seed: int, key: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [0]
    looked_for = at_once.asking

    def asking(*arguments: Any) -> reading.Asking | None:
        found = looked_for(*arguments)
        taken[0] += found is not None
        return found

    monkeypatch.setattr(at_once, "asking", asking)

    async def work() -> None:
        rng = Random(f"{seed} {key}")
        rows = [measurement(rng, number) for number in range(300)]
        node = await filled(rng, rows, [] if key is None else [{"key": key, "name": "own"}])
        for number in range(120):
            stages = [{"$match": asked(rng)}, *rng.choice(STAGES)]
            request = {"aggregate": "s", "pipeline": stages, "cursor": {"batchSize": 1000}}
            reply = await node.reply(request)
            before = taken[0]
            otherwise = await node.reply({**request, "allowDiskUse": True})
            assert taken[0] == before, "what is compared with is the general way"
            assert _shown(reply) == _shown(otherwise), (number, stages)
            filter_ = asked(rng)
            options = rng.choice([{}, {"sort": {"t": -1}, "limit": 1}, {"projection": {"t": 1, "b": 1}}, {"limit": 4}])
            find = {"find": "s", "filter": filter_, "batchSize": rng.choice([3, 1000]), **options}
            reply = await node.reply(find)
            otherwise = await node.reply({**find, "allowDiskUse": True})
            assert _shown(reply) == _shown(otherwise), (filter_, options)
            assert _more(reply) == _more(otherwise)

    loop(work())
    assert taken[0] > 120


def _shown(reply: dict[str, Any]) -> str:
    if not reply["ok"]:
        return repr((reply["code"], reply["errmsg"]))
    return repr(reply["cursor"]["firstBatch"])


def _more(reply: dict[str, Any]) -> bool:
    return bool(reply["ok"] and reply["cursor"]["id"])


def test_the_rest_of_a_step_comes_with_get_more() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}})
        rows = [{"_id": number, "t": BEGIN + datetime.timedelta(seconds=number), "m": 1} for number in range(300)]
        await node.run({"insert": "s", "documents": rows})
        reply = await node.run({"find": "s", "filter": {"m": 1}})
        first = reply["cursor"]["firstBatch"]
        more = await node.run({"getMore": reply["cursor"]["id"], "collection": "s"})
        assert [each["_id"] for each in [*first, *more["cursor"]["nextBatch"]]] == list(range(300))
        assert (len(first), more["cursor"]["id"]) == (101, 0)

    loop(work())


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_measurements_of_one_command_are_those_of_a_command_each(seed: int, ordered: bool, replicated: bool) -> None:
    """What is wrong with one of them is said of it alone; a retried command does nothing twice."""

    async def work() -> None:
        rng = Random(seed)
        rows: list[dict[str, Any]] = [measurement(rng, number) for number in range(200)]
        for place in rng.sample(range(200), 5):
            rows[place] = rng.choice([{"_id": place}, {"_id": place, "t": 5}, {**rows[place], "a": [1]}])
        together, apart = LocalNode(replicated=replicated), LocalNode(replicated=replicated)
        for node in (together, apart):
            await node.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}})
            await node.run({"createIndexes": "s", "indexes": [{"key": {"m": 1, "a": 1}, "name": "own"}]})
        errors: list[tuple[int, int, str]] = []
        for place, row in enumerate(rows):
            reply = await apart.reply({"insert": "s", "documents": [row]})
            errors += [(place, each["code"], each["errmsg"]) for each in reply.get("writeErrors", ())]
            if errors and ordered:
                break
        request = {"insert": "s", "documents": rows, "ordered": ordered, **(session() if replicated else {})}
        for _ in range(2):
            reply = await together.reply(request)
            found = [(each["index"], each["code"], each["errmsg"]) for each in reply.get("writeErrors", ())]
            assert found == errors
        find = {"find": "s", "sort": {"_id": 1}, "batchSize": 1000}
        one, other = await together.run(find), await apart.run(find)
        if replicated:
            assert _shown(one) == _shown(other)
        else:
            assert [each["_id"] for each in one["cursor"]["firstBatch"]] == sorted(
                [each["_id"] for each in other["cursor"]["firstBatch"]] * 2
            )

    loop(work())


@pytest.mark.parametrize("replicated", [False, True])
def test_a_command_that_is_interrupted_sees_what_others_have_written(replicated: bool) -> None:
    """Its steps are short, and another command adds to the same buckets between them."""

    async def work() -> None:
        node = LocalNode(replicated=replicated)
        await node.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}})
        rows = [{"_id": number, "t": BEGIN, "m": number % 50} for number in range(900)]
        await node.run({"insert": "s", "documents": rows[:100]})
        node.hurry()
        await asyncio.gather(*[node.run({"insert": "s", "documents": rows[100 + start :: 4]}) for start in range(4)])
        found = await node.documents("s")
        assert sorted(each["_id"] for each in found) == list(range(900))

    loop(work())


def test_the_newest_measurement_is_found_by_an_index_among_many_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    by_index = reading.Asking.newest_by_index

    def newest_by_index(self: reading.Asking, *arguments: Any) -> list[bytes] | None:
        found = by_index(self, *arguments)
        looked_at.append(-1 if found is None else len(found))
        return found

    monkeypatch.setattr(reading.Asking, "newest_by_index", newest_by_index)

    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "s", "timeseries": {"timeField": "t", "metaField": "m"}})
        await node.run({"createIndexes": "s", "indexes": [{"key": {"m": 1, "t": -1}, "name": "own"}]})
        days = [BEGIN + datetime.timedelta(days=number // 2 % 1100, seconds=number % 2) for number in range(2200)]
        rows = [{"_id": number, "t": day, "m": number % 2} for number, day in enumerate(days)]
        await node.run({"insert": "s", "documents": rows})
        for filter_ in ({"m": 1}, {"m": 0}, {"m": {"$in": [0, 1]}}):
            find = {"find": "s", "filter": filter_, "sort": {"t": -1}, "limit": 3}
            assert _shown(await node.reply(find)) == _shown(await node.reply({**find, "allowDiskUse": True}))
        assert looked_at[:2] == [3, 3]

    loop(work())
