"""What a `$lookup` or `$graphLookup` finds for many documents at a time is what it finds for each by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import Decimal128, Regex

from docstore.aggregation.stages import join
from docstore.aggregation.stages.graph_search import NodeCache
from docstore.aggregation.stages.lookup_result import LookupResult
from tests.unit.node.local import LocalNode, loop

VALUES: list[Any] = [
    None, 0, 1, 1.0, Decimal128("2"), 2, "a", "A", "b", {"x": 1}, True, [], [1], [None], [1, "a"], [[1]], Regex("a"),
    {"v": 1}, [{"v": 1}, {"v": "a"}],
]  # fmt: skip


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LookupResult, "plain_join", lambda _: None)
    monkeypatch.setattr(join, "plain_keys", lambda _, documents: [None] * len(documents))


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("collation", [None, {"locale": "en", "strength": 1}])
def test_joined_together_and_one_by_one(
    monkeypatch: pytest.MonkeyPatch, indexed: bool, collation: dict[str, Any] | None
) -> None:
    async def work() -> None:
        rng = random.Random(f"{indexed}{collation}")
        node = LocalNode()
        for case in range(10):
            values = VALUES if case % 2 else [value for value in VALUES if not isinstance(value, list)]
            foreign = [{"_id": place, "f": rng.choice(values)} for place in range(50)]
            local = [
                {"_id": place, rng.choice("aaaaabj"): rng.choice(VALUES), "t": "x" * rng.choice((1, 3000))}
                for place in range(300)
            ]
            names = f"c{case}", f"k{case}"
            for name, documents in zip(names, (local, foreign), strict=True):
                await node.run({"insert": name, "documents": documents})
            if indexed:
                await node.run({"createIndexes": names[1], "indexes": [{"key": {"f": 1}, "name": "f"}]})
            command = {"aggregate": names[0], "cursor": {"batchSize": 1_000_000}}
            command |= {} if collation is None else {"collation": collation}
            for pipeline in pipelines(rng, names[1]):
                together = (await node.run(command | {"pipeline": pipeline}))["cursor"]["firstBatch"]
                with monkeypatch.context() as patch:
                    one_by_one(patch)
                    one = await node.run(command | {"pipeline": pipeline})
                    assert one["cursor"]["firstBatch"] == together

    loop(work())


def pipelines(rng: random.Random, name: str) -> list[list[dict[str, Any]]]:
    stage = {"from": name, "localField": rng.choice(("a", "a.v")), "foreignField": rng.choice(("f", "f.v", "_id"))}
    at_top = {"$lookup": stage | {"as": "j"}}
    unwound: list[dict[str, Any]] = [
        {"path": "$j"}, {"path": "$j", "preserveNullAndEmptyArrays": True}, {"path": "$j", "includeArrayIndex": "n"},
    ]  # fmt: skip
    return [
        [at_top],
        [{"$lookup": stage | {"as": "a"}}],
        [{"$lookup": stage | {"as": "z.y"}}],
        [{"$lookup": stage | {"as": "j", "pipeline": [{"$project": {"f": 1}}]}}],
        *([at_top, {"$unwind": each}] for each in unwound),
    ]


@pytest.mark.parametrize(
    "options", [{}, {"maxDepth": 0}, {"maxDepth": 2}, {"restrictSearchWithMatch": {"w": 1}}], ids=str
)
@pytest.mark.parametrize("index", [None, {"f": 1}, {"f": -1}], ids=str)
def test_searched_in_what_is_known_and_by_queries(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], index: dict[str, int] | None
) -> None:
    async def work() -> None:
        rng = random.Random(f"{options}{index}")
        node = LocalNode()
        known: list[bool] = []
        reached = NodeCache.reached
        for case in range(12):
            leads: list[Any] = [*range(case * 20 + 8), "a", "A", 3.0]
            if case % 3 == 0:
                leads += [None, [], [1, 2], [5, None, 5], [Regex("a")], Regex("a"), [[1]]]
            nodes = [{"_id": place, "f": place, "g": rng.choice(leads), "w": rng.randrange(3)} for place in range(60)]
            if case % 4 == 0:
                nodes += [{"_id": 100 + place, "f": rng.choice(leads), "g": rng.choice(leads)} for place in range(20)]
            name = f"c{case}"
            await node.run({"insert": name, "documents": nodes})
            if index is not None:
                await node.run({"createIndexes": name, "indexes": [{"key": index, "name": "f"}]})
            stage = {"from": name, "startWith": "$g", "connectFromField": "g", "connectToField": "f", "as": "j"}
            pipeline = [{"$graphLookup": stage | options}, {"$graphLookup": stage | options | {"startWith": ["$g", 3]}}]
            command = {"aggregate": name, "cursor": {"batchSize": 1_000_000}, "pipeline": pipeline}

            def noted(self: NodeCache, document: bytes) -> list[bytes] | None:
                found = reached(self, document)
                known.append(found is not None)
                return found

            with monkeypatch.context() as patch:
                patch.setattr(NodeCache, "reached", noted)
                by_known = await node.run(command)
            with monkeypatch.context() as patch:
                patch.setattr(NodeCache, "reached", lambda _, __: None)
                assert await node.run(command) == by_known
        assert any(known)

    loop(work())
