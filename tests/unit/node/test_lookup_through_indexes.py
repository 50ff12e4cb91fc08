"""A `$lookup` gives the same with and without an index on the field that it asks."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from bson import Decimal128, MinKey

from tests.unit.node.local import LocalNode, loop

VALUES: list[Any] = [None, 0, 1, 2.0, "a", "b", {"x": 1}, True]
LOCAL: list[Any] = [*VALUES, [], [1, "a"], [None, 2], [[1]]]
FEW = {"batchSize": 1_000_000}


def test_an_index_changes_no_partner_and_no_order() -> None:
    async def work() -> None:
        rng = random.Random(5)
        node = LocalNode()
        for case in range(12):
            arrays = LOCAL if case % 3 == 0 else VALUES
            foreign = [{"_id": place, "f": rng.choice(arrays)} for place in range(40) if rng.random() < 0.9]
            local = [{"_id": place, "a": rng.choice(LOCAL)} for place in range(300)]
            names = f"c{case}", f"k{case}"
            for name, documents in zip(names, (local, foreign), strict=True):
                await node.run({"insert": name, "documents": documents})
            stage = {"from": names[1], "localField": "a", "foreignField": "f", "as": "j"}
            command = {"aggregate": names[0], "pipeline": [{"$lookup": stage}], "cursor": FEW}
            plain = (await node.run(command))["cursor"]["firstBatch"]
            await node.run({"createIndexes": names[1], "indexes": [{"key": {"f": 1}, "name": "f"}]})
            indexed = (await node.run(command))["cursor"]["firstBatch"]

            for first, second in zip(plain, indexed, strict=True):
                if not isinstance(first["a"], list):
                    assert first == second
                # Several values are looked up in the order of the index.
                assert sorted(first["j"], key=lambda found: found["_id"]) == sorted(
                    second["j"], key=lambda found: found["_id"]
                )

    loop(work())


POINTS: list[Any] = [
    0,
    -0.0,
    1,
    2.0,
    Decimal128("2"),
    2**60,
    float("nan"),
    "a",
    "b\0",
    "",
    {"x": 1},
    True,
    MinKey(),
    b"x",
]


@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"collation": {"locale": "en", "strength": 1}}], ids=str)
@pytest.mark.parametrize("key", [{"f": 1}, {"f": -1}, {"f": 1, "g": -1}, {"f": "hashed"}], ids=str)
def test_partners_found_by_the_keys_of_an_index_are_those_of_a_scan(
    key: dict[str, Any], options: dict[str, Any]
) -> None:
    """Nobody asks for null here, nor for what an array is equal to."""
    if options and "hashed" in key.values():
        options = {}

    async def work() -> None:
        rng = random.Random(3)
        node = LocalNode()
        foreign = [{"_id": place, "f": rng.choice(POINTS), "g": rng.randrange(9)} for place in range(60)] + [
            {"_id": 99}
        ]
        wanted = [*POINTS, "A", 7, [1, "a"], [2, 2.0]]
        await node.run({"insert": "c", "documents": [{"_id": place, "a": rng.choice(wanted)} for place in range(300)]})
        await node.run({"insert": "k", "documents": [*foreign, {"_id": 99}]})
        stage = {"from": "k", "localField": "a", "foreignField": "f", "as": "j"}
        plain = await _joined(node, "c", stage)
        await node.run({"createIndexes": "k", "indexes": [{"key": key, "name": "f", **options}]})
        assert await _joined(node, "c", stage) == plain

    loop(work())


def test_indexes_that_partners_are_found_by_count_as_used() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": [{"_id": place, "a": place} for place in range(50)]})
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]})
        stage = {"from": "c", "localField": "_id", "foreignField": "a", "as": "j"}
        assert all(found["j"] for found in await _joined(node, "c", stage))
        stats = await node.run({"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}})
        assert {each["name"]: each["accesses"]["ops"] for each in stats["cursor"]["firstBatch"]} == {"_id_": 0, "a": 1}

    loop(work())


RESTS: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"$project": {"f": 1, "_id": 0}}],
    [{"$sort": {"_id": -1}}, {"$set": {"seen": "$$v"}}],
    [{"$group": {"_id": "$$v", "all": {"$sum": "$_id"}}}],
    [{"$unwind": "$f"}, {"$match": {"f": {"$ne": 1}}}, {"$sort": {"_id": 1}}],
)


def test_a_pipeline_behind_an_equality_makes_what_it_makes_for_each_document_alone() -> None:
    """An equality in an expression compares an array as one value, and tells nothing from null."""

    async def work() -> None:
        rng = random.Random(9)
        node = LocalNode()
        for case in range(8):
            names = f"c{case}", f"k{case}"
            wide = [*LOCAL, [1, 2], float("nan"), {"x": 1.0}, re.compile("a")]
            for name, field in zip(names, "af", strict=True):
                documents = [
                    {"_id": place, **({field: rng.choice(wide)} if rng.random() < 0.8 else {})} for place in range(150)
                ]
                await node.run({"insert": name, "documents": documents})
            if case % 2:
                await node.run({"createIndexes": names[1], "indexes": [{"key": {"f": 1}, "name": "f"}]})
            for rest in RESTS:
                fields = {"from": names[1], "let": {"v": "$a"}, "as": "j"}
                equal = {"$eq": rng.choice((["$f", "$$v"], ["$$v", "$f"]))}
                together = {**fields, "pipeline": [{"$match": {"$expr": equal}}, *rest]}
                apart = {**fields, "pipeline": [{"$match": {"$expr": {"$and": [equal]}}}, *rest]}
                assert await _joined(node, names[0], together) == await _joined(node, names[0], apart)
                fields |= {"localField": "a", "foreignField": "f"}
                together, apart = {**fields, "pipeline": rest}, {**fields, "pipeline": [{"$match": {}}, *rest]}
                assert await _joined(node, names[0], together) == await _joined(node, names[0], apart)

    loop(work())


async def _joined(node: LocalNode, name: str, stage: dict[str, Any]) -> list[dict[str, Any]]:
    """Partners without an order of their own in one that tells them apart."""
    pipeline = [{"$lookup": stage}]
    found = (await node.run({"aggregate": name, "pipeline": pipeline, "cursor": FEW}))["cursor"]["firstBatch"]
    return [{**each, "j": sorted(map(repr, each["j"]))} for each in map(_comparable, found)]


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    """With its own value as text: one that is no number does not equal itself."""
    return {**document, "a": repr(document.get("a"))}
