"""What a node tells of the plans that it keeps, and that it forgets them when it is told to."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.collection.read import planning
from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop

BOTH = {"x": 0, "y": 6}


async def with_plans() -> LocalNode:
    """Of three finds and a count one has more than one index to choose from."""
    node = LocalNode()
    await node.insert("c", *({"_id": number, "x": 0, "y": number} for number in range(50)))
    for name in "xy":
        await node.run({"createIndexes": "c", "indexes": [{"key": {name: 1}, "name": f"{name}_1"}]})
    for condition in (BOTH, {"x": 1}, {"y": {"$gt": 40}}):
        await node.documents("c", condition)
    await node.run({"count": "c", "query": {"y": 5}})
    return node


async def statistics(node: LocalNode) -> list[dict[str, Any]]:
    reply = await node.run({"aggregate": "c", "pipeline": [{"$planCacheStats": {}}], "cursor": {}})
    found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return found


def kept(node: LocalNode) -> int:
    collection = node.node.store.collection("test.c")
    assert collection is not None
    return len(collection.plans)


def test_the_plans_that_were_chosen_from_several_are_shown() -> None:
    async def work() -> None:
        node = await with_plans()
        (shown,) = await statistics(node)
        explained = await node.run({"explain": {"find": "c", "filter": BOTH}, "verbosity": "queryPlanner"})
        planner = explained["queryPlanner"]
        assert shown["cachedPlan"] == planner["winningPlan"]
        assert shown["cachedPlan"]["inputStage"]["indexName"] == "y_1"
        assert (shown["queryHash"], shown["planCacheKey"]) == (planner["queryHash"], planner["planCacheKey"])
        assert shown["isActive"]
        assert 1 <= shown["works"] < 10

    loop(work())


def test_an_explanation_neither_uses_nor_keeps_a_plan() -> None:
    async def work() -> None:
        node = await with_plans()
        await node.run({"planCacheClear": "c"})
        for verbosity in ("queryPlanner", "executionStats"):
            await node.run({"explain": {"find": "c", "filter": BOTH}, "verbosity": verbosity})
            await node.run({"explain": {"count": "c", "query": BOTH}, "verbosity": verbosity})
        assert kept(node) == 0

    loop(work())


def test_all_plans_are_forgotten_or_those_of_a_shape() -> None:
    async def work() -> None:
        node = await with_plans()
        assert kept(node) == 4
        await node.run({"planCacheClear": "c", "query": {"x": 5, "y": 7}})
        assert kept(node) == 3
        assert await statistics(node) == []
        await node.run({"planCacheClear": "c", "query": {"y": 1}})
        assert kept(node) == 2
        await node.run({"planCacheClear": "c", "query": {"never": 1}, "sort": {"x": 1}})
        assert kept(node) == 2
        await node.run({"planCacheClear": "c"})
        assert kept(node) == 0
        await node.run({"planCacheClear": "nothing"})

    loop(work())


@pytest.mark.parametrize("name", ["sort", "projection", "collation"])
def test_what_belongs_to_a_query_is_refused_without_one(name: str) -> None:
    async def work() -> None:
        node = await with_plans()
        refused = await node.reply({"planCacheClear": "c", name: {"x": 1}})
        assert refused["code"] == Code.BadValue
        assert kept(node) == 4

    loop(work())


def test_a_choice_is_kept_where_a_plan_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        rows = [{"_id": number, "a": {"x": 0, "y": number % 25}} for number in range(200)]
        await node.insert("c", *rows)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a.$**": 1}, "name": "all"}]})
        tried = 0
        best_of = planning.best_of

        def counted(*arguments: Any) -> Any:
            nonlocal tried
            tried += 1
            return best_of(*arguments)

        monkeypatch.setattr(planning, "best_of", counted)
        for number in range(6):
            found = await node.documents("c", {"a.x": 0, "a.y": number})
            assert [each["_id"] % 25 for each in found] == [number] * 8
        assert tried == 1
        # What was the best is dear now: most documents are in its range, and few are found in it.
        await node.insert("c", *({"_id": number, "a": {"x": number, "y": 7}} for number in range(1000, 2000)))
        for _ in range(3):
            assert len(await node.documents("c", {"a.x": 1500, "a.y": 7})) == 1
        assert tried > 1

    loop(work())
