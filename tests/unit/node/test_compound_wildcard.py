"""Compound wildcard indexes: what they find is what a scan of the collection finds, and how they are planned."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.commands.limits import FACES
from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop

KEYS: list[dict[str, Any]] = [
    {"key": {"t": 1, "d.$**": 1}},
    {"key": {"t": -1, "u.v": 1, "d.$**": 1, "z": -1}},
    {"key": {"d.$**": 1, "t": 1}},
    {"key": {"t": 1, "$**": 1}, "wildcardProjection": {"t": 0, "_id": 0}},
]


def value(rng: random.Random, *, depth: int = 2) -> Any:
    kinds = [1, 2, 2.0, "a", "b", None, True]
    if depth and rng.random() < 0.5:
        members = [value(rng, depth=depth - 1) for _ in range(rng.randrange(3))]
        if rng.random() < 0.4:
            return members
        return dict(zip("xyz", members, strict=False))
    return rng.choice(kinds)


def document(rng: random.Random, identity: int) -> dict[str, Any]:
    made: dict[str, Any] = {"_id": identity}
    for name in ("t", "u", "d", "z"):
        if rng.random() < 0.8:
            made[name] = {"v": value(rng, depth=0)} if name == "u" else value(rng)
    return made


def condition(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for path in ("t", "u.v", "d.x", "d.y.x", "d", "z"):
        if rng.random() < 0.45:
            operand = rng.choice([1, 2, "a", "b", None, True])
            made[path] = rng.choice(
                [
                    operand, {"$gt": operand}, {"$lte": operand}, {"$in": [operand, 2]}, {"$exists": True},
                    {"$ne": operand}, {"$elemMatch": {"$gte": 1}}, {"$gt": 0, "$lt": 2}, {"$type": "string"},
                ]
            )  # fmt: skip
    return made


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("spec", KEYS, ids=str)
def test_what_it_finds_is_what_is_there(spec: dict[str, Any], arrays: bool) -> None:
    async def work() -> None:
        rng = random.Random(f"{spec} {arrays}")
        node = LocalNode()
        rows = [document(rng, identity) for identity in range(150)]
        if not arrays:
            rows = [row for row in rows if "[" not in repr(row)]
        await node.insert("c", *rows[: len(rows) // 2])
        await node.run({"createIndexes": "c", "indexes": [{"name": "w", **spec}]})
        await node.insert("c", *rows[len(rows) // 2 :])
        for row in rows[::7]:
            await node.run({"update": "c", "updates": [{"q": {"_id": row["_id"]}, "u": {"$set": {"d.x": 1}}}]})
        assert (await node.run({"validate": "c"}))["valid"]
        served = 0
        for _ in range(150):
            filter_ = (
                condition(rng) if rng.random() < 0.8 else {"$or": [condition(rng) or {"t": 1}, {"t": 2, "d.x": 1}]}
            )
            plain = await node.run({"find": "c", "filter": filter_, "hint": {"$natural": 1}, "batchSize": 1000})
            found = await node.run({"find": "c", "filter": filter_, "batchSize": 1000})
            explained = await node.run({"explain": {"find": "c", "filter": filter_}, "verbosity": "queryPlanner"})
            served += "IXSCAN" in repr(explained["queryPlanner"]["winningPlan"])
            expected = sorted(row["_id"] for row in plain["cursor"]["firstBatch"])
            assert sorted(row["_id"] for row in found["cursor"]["firstBatch"]) == expected, filter_
            counted = await node.run({"count": "c", "query": filter_})
            assert counted["n"] == len(expected), filter_
        assert served > 15

    loop(work())


@pytest.mark.parametrize(
    ("filter_", "pattern", "bounds"),
    [
        (
            {"t": 1, "d.x": 2},
            {"t": 1, "$_path": 1, "d.x": 1, "z": 1},
            {"t": ["[1, 1]"], "$_path": ['["d.x", "d.x"]'], "d.x": ["[2, 2]"], "z": ["[MinKey, MaxKey]"]},
        ),
        ({"t": {"$gt": 1}}, {"t": 1, "$_path": 1, "z": 1}, {"t": ["(1, inf.0]"]}),
        ({"d.x": 1}, None, None),
        ({"z": 1}, None, None),
    ],
)
def test_it_is_planned_by_its_first_fields(
    filter_: dict[str, Any], pattern: dict[str, int] | None, bounds: dict[str, list[str]] | None
) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n, "t": n % 3, "d": {"x": n, "y": n}} for n in range(30)))
        await node.run({"createIndexes": "c", "indexes": [{"name": "w", "key": {"t": 1, "d.$**": 1, "z": 1}}]})
        explained = await node.run({"explain": {"find": "c", "filter": filter_}, "verbosity": "queryPlanner"})
        plan = explained["queryPlanner"]["winningPlan"]
        if pattern is None or bounds is None:
            assert plan["stage"] == "COLLSCAN"
            return
        scan = plan["inputStage"]
        assert (plan["stage"], scan["stage"], scan["keyPattern"]) == ("FETCH", "IXSCAN", pattern)
        assert scan["indexBounds"].items() >= bounds.items()

    loop(work())


def test_servers_before_seven_have_none() -> None:
    async def work() -> None:
        node = LocalNode(face=FACES["6.0"])
        reply = await node.reply({"createIndexes": "c", "indexes": [{"name": "w", "key": {"t": 1, "d.$**": 1}}]})
        assert reply["code"] == Code.CannotCreateIndex

    loop(work())


def test_a_field_with_a_dot_in_its_name_has_no_entry() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"$**": 1}, "name": "w"}]})
        await node.insert(
            "c", {"_id": 1, "d.x": 5, "d": {"x": 6}}, {"_id": 2, "d.x": {"y": 7}}, {"_id": 3, "d": {"x.y": 7}}
        )
        for filter_, expected in (({"d.x": {"$gt": 4}}, [1]), ({"d.x.y": 7}, []), ({"d.x.y": {"$exists": True}}, [])):
            found = await node.run({"find": "c", "filter": filter_, "hint": "w"})
            assert [each["_id"] for each in found["cursor"]["firstBatch"]] == expected

    loop(work())


def test_what_one_path_is_asked_for_is_told_by_entries() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"d.$**": 1}, "name": "w"}]})
        await node.insert("c", *({"_id": number, "d": {"x": number % 5, "y": number % 3}} for number in range(30)))
        for arrays in (False, True):
            found = await _winning(node, {"find": "c", "filter": {"d.x": 1, "q": {"$ne": 3}}})
            assert found["filter"] == {"q": {"$not": {"$eq": 3}}}
            counted = (await _winning(node, {"count": "c", "query": {"d.x": {"$gt": 3}}}))["inputStage"]
            assert counted["stage"] == "COUNT_SCAN"
            assert counted["indexBounds"]["startKey"] == {"$_path": "d.x", "d.x": 3}
            assert (await node.run({"count": "c", "query": {"d.x": {"$gt": 3}}}))["n"] == 6 + arrays
            await node.insert("c", {"_id": 99, "d": {"x": [4, 5, 6, [7]]}})

    loop(work())


async def _winning(node: LocalNode, command: dict[str, Any]) -> dict[str, Any]:
    """The plan that a command is carried out by."""
    found: dict[str, Any] = (await node.run({"explain": command, "verbosity": "queryPlanner"}))["queryPlanner"]
    return found["winningPlan"]  # type: ignore[no-any-return]
