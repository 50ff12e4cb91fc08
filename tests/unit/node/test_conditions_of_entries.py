"""Conditions that the entries of an index tell: what is found by them is what a scan of the collection finds."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from tests.unit.node.local import LocalNode, loop

SCALARS: tuple[Any, ...] = (
    0, 1, 2, -3, 2.5, Int64(7), "", "Name 1", "name 2", "NAMES", "\u212aelvin", "mi\u017fs", "a\0b", "a\1", None, True,
    bson.Regex("name", "i"), bson.Decimal128("4"), bson.Code("name"), b"name", {"x": "name"},
)  # fmt: skip
CONDITIONS: tuple[Any, ...] = (
    bson.Regex("name", "i"), bson.Regex("S$", "i"), bson.Regex("^na"), bson.Regex("k", "i"), bson.Regex("m.*e"),
    {"$mod": [2, 0]}, {"$type": "string"}, {"$type": "int"}, {"$not": bson.Regex("name", "i")},
    {"$in": [bson.Regex("^n"), 2]}, {"$nin": ["name 2", 1]}, {"$gt": 0, "$mod": [2, 1]}, {"$exists": True},
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_what_entries_tell_is_what_documents_say(seed: int) -> None:
    async def work() -> None:
        rng = random.Random(seed)
        node = LocalNode()
        of_a = (*SCALARS, [1, "name"], []) if seed % 3 == 0 else SCALARS
        rows = [
            {
                "_id": rng.choice(("n", "N")) + str(number),
                **{name: rng.choice(of_a if name == "a" else SCALARS) for name in rng.sample("abc", 2)},
            }
            for number in range(900)
        ]
        await node.insert("c", *rows)
        await node.insert("plain", *rows)
        keys = [{"a": 1}, {"b": -1}, {"c": 1, "a": -1}]
        indexes = [{"key": key, "name": f"i{place}"} for place, key in enumerate(keys)]
        await node.run({"createIndexes": "c", "indexes": indexes})
        for _ in range(25):
            wanted = {path: rng.choice(CONDITIONS) for path in rng.sample(("a", "b", "c", "_id"), rng.randrange(1, 3))}
            sort = rng.choice(({}, {"a": 1}, {"b": 1}, {"c": -1}))
            found, expected = [
                (await node.run({"find": name, "filter": wanted, "sort": sort, "batchSize": 1000}))["cursor"]
                for name in ("c", "plain")
            ]
            assert _ids(found) == _ids(expected), (wanted, sort)

    loop(work())


def _ids(cursor: dict[str, Any]) -> list[str]:
    assert not cursor["id"]
    return sorted(each["_id"] for each in cursor["firstBatch"])


def test_documents_that_entries_exclude_are_not_read() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]})
        await node.insert("c", *({"_id": number, "a": f"Name {number}"} for number in range(200)))
        for wanted, found in ((bson.Regex("e 1.$", "i"), 10), (bson.Regex("NAME 7", "i"), 11)):
            explained = await node.run({"explain": {"find": "c", "filter": {"a": wanted}}})
            stats = explained["executionStats"]
            assert (stats["nReturned"], stats["totalDocsExamined"]) == (found, found)
            assert stats["totalKeysExamined"] >= 200

    loop(work())


def test_the_values_of_arrays_are_told_apart_by_the_index() -> None:
    async def work() -> None:
        node = LocalNode()
        rng = random.Random(5)
        values = (*SCALARS, [], [1, "name"], [[1, 2]], [None], [{"x": 1}, {"x": [2]}], ["a", "b", "c"])
        rows = [{"_id": number, "a": rng.choice(values)} for number in range(300)] + [{"_id": "none"}]
        await node.insert("c", *rows)
        await node.insert("plain", *rows)
        indexes = [{"key": {"a": -1}, "name": "a"}, {"key": {"a.x": 1}, "name": "x"}]
        await node.run({"createIndexes": "c", "indexes": indexes})
        for key in ("a", "a.x"):
            for query in ({}, {"a": 1}, {"a": {"$gt": "a"}}):
                found, expected = [
                    (await node.run({"distinct": name, "key": key, "query": query}))["values"]
                    for name in ("c", "plain")
                ]
                assert len(found) == len(expected), (key, query)
                assert all(each in expected for each in found), (key, query)
        explained = await node.run({"explain": {"distinct": "c", "key": "a"}})
        assert "DISTINCT_SCAN" in repr(explained["queryPlanner"]["winningPlan"])

    loop(work())
