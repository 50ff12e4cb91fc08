"""Groups of what stands in an index: read from it alone, each key once where nothing but keys is asked for."""

from __future__ import annotations

import asyncio
import random
from numbers import Number
from typing import Any

import pytest
from bson.decimal128 import Decimal128

from docstore.collection.read import prepared
from tests.unit.node.local import LocalNode
from tests.unit.node.requests_at_once import INDEXES, PATHS, condition, document, patched

DOCUMENTS = [{"_id": n, "a": n % 3, "b": n} for n in range(30)] + [{"_id": 30, "b": 5}, {"_id": 31, "a": None, "b": 5}]


@pytest.mark.parametrize(
    ("stages", "plan", "keys", "documents"),
    [
        ([{"$group": {"_id": "$a"}}], "DISTINCT_SCAN", 5, 0),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}], "DISTINCT_SCAN", 11, 0),
        ([{"$match": {"a": {"$gt": 0}}}, {"$group": {"_id": "$a", "s": {"$sum": "$b"}}}], "IXSCAN", 20, 0),
        ([{"$match": {"a": 1}}, {"$group": {"_id": None, "s": {"$sum": {"$add": ["$b", 1]}}}}], "IXSCAN", 10, 0),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$c"}}], "FETCH", 10, 10),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$a", "all": {"$push": "$$ROOT"}}}], "FETCH", 10, 10),
        ([{"$limit": 4}, {"$group": {"_id": "$a"}}], "LIMIT", 0, 4),
    ],
)
def test_groups_and_how_they_are_read(stages: list[dict[str, Any]], plan: str, keys: int, documents: int) -> None:
    async def story() -> None:
        node = LocalNode()
        for name in ("c", "plain"):
            await node.insert(name, *DOCUMENTS)
        await node.run({"createIndexes": "c", "indexes": [{"name": "ab", "key": {"a": 1, "b": 1}}]})
        found: dict[str, list[Any]] = {}
        for name in ("c", "plain"):
            reply = await node.run({"aggregate": name, "pipeline": [*stages, {"$sort": {"_id": 1}}], "cursor": {}})
            found[name] = reply["cursor"]["firstBatch"]
        assert found["c"] == found["plain"]
        asked = {"explain": {"aggregate": "c", "pipeline": stages, "cursor": {}}, "verbosity": "executionStats"}
        cursor = (await node.run(asked))["stages"][0]["$cursor"]
        metrics = cursor["executionStats"]
        assert cursor["queryPlanner"]["winningPlan"]["stage"] == plan
        assert (metrics["totalKeysExamined"], metrics["totalDocsExamined"]) == (keys, documents)

    asyncio.run(story())


def test_a_sparse_index_does_not_know_all_groups() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "a": 1}, {"_id": 2})
        await node.run({"createIndexes": "c", "indexes": [{"name": "a", "key": {"a": 1}, "sparse": True}]})
        asked = {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a"}}, {"$sort": {"_id": 1}}], "cursor": {}}
        assert (await node.run(asked))["cursor"]["firstBatch"] == [{"_id": None}, {"_id": 1}]

    asyncio.run(story())


def same(value: Any) -> str:
    """What equal values have in common: an index is read for one of them."""
    if isinstance(value, dict):
        return repr({name: same(part) for name, part in value.items()})
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    return repr(float(number)) if isinstance(number, Number) and not isinstance(number, bool) else repr(value)


async def values_of(node: LocalNode, path: str, query: dict[str, Any] | None) -> tuple[list[str], list[str]]:
    """The values by `distinct`, and by a group of each."""
    distinct = {"distinct": "c", "key": path} | ({} if query is None else {"query": query})
    found = await node.reply(distinct)
    stages: list[dict[str, Any]] = [{"$group": {"_id": f"${path}"}}]
    matched = [] if query is None else [{"$match": query}]
    groups = await node.reply({"aggregate": "c", "pipeline": matched + stages, "cursor": {}})
    if not found["ok"] or not groups["ok"]:
        return [found.get("codeName", "")], [groups.get("codeName", "")]
    given = [same(each.get("_id", "missing")) for each in groups["cursor"]["firstBatch"]]
    return list(map(same, found["values"])), sorted(given)


@pytest.mark.parametrize("seed", range(8))
def test_values_of_an_index_are_those_of_the_documents(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_index: list[object] = []
    of_each = prepared.first_of_each

    def noted(*arguments: Any) -> Any:
        by_index.append(arguments)
        return of_each(*arguments)

    async def story() -> None:
        rng = random.Random(seed)
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": rng.sample(INDEXES, 5)})
        for arrays in (False, True):
            await node.insert("c", *(document(rng, 100 * arrays + number, arrays=arrays) for number in range(60)))
            for path in PATHS:
                for query in (None, {}, {path: condition(rng)}, {rng.choice(PATHS): 1}, {path: {"$gte": 1}}):
                    with monkeypatch.context() as patch:
                        patch.setattr(prepared, "first_of_each", noted)
                        found = await values_of(node, path, query)
                    with monkeypatch.context() as patch:
                        patched(patch)
                        assert found == await values_of(node, path, query), (path, query)

    asyncio.run(story())
    assert by_index


def test_a_group_of_an_array_is_not_one_of_its_elements() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n, "a": a} for n, a in enumerate(["x", "y", ["x", "y"], ["y", "x"]])))
        await node.run({"createIndexes": "c", "indexes": [{"name": "a", "key": {"a": 1}}]})
        for stages in ([], [{"$match": {"a": {"$gt": ""}}}], [{"$sort": {"a": 1}}]):
            pipeline = [*stages, {"$group": {"_id": "$a"}}]
            reply = await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})
            assert len(reply["cursor"]["firstBatch"]) == 4, pipeline
        assert (await node.run({"distinct": "c", "key": "a"}))["values"] == ["x", "y"]

    asyncio.run(story())
