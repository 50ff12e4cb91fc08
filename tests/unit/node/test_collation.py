"""Requests under a collation find what the real server finds, with and without an index of the same collation."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from docstore.errors import Code
from docstore.node.commands import find_and_modify
from docstore.node.write.statement_loop import WriteTarget
from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

EN2 = {"locale": "en", "strength": 2}
TEXTS: list[Any] = [
    "a",
    "A",
    "á",
    "b",
    "B",
    "ab",
    "AB",
    "",
    "a-b",
    "item 10",
    "Item 9",
    "ß",
    "ss",
    1,
    None,
    ["a", "C"],
    {"x": "A"},
]
RULES = [EN2, {"locale": "en", "strength": 1}, {"locale": "de"}, {"locale": "en", "numericOrdering": True}, None]


def document(rng: Random, identity: int) -> dict[str, Any]:
    return {"_id": identity, "t": rng.choice(TEXTS), "u": rng.choice(TEXTS)}


def query(rng: Random) -> dict[str, Any]:
    path = rng.choice(["t", "u", "t.x"])
    operand = rng.choice(TEXTS)
    operators = [
        operand,
        {"$gt": operand},
        {"$lte": operand},
        {"$ne": operand},
        {"$in": [operand, rng.choice(TEXTS)]},
        {"$nin": [operand]},
        {"$not": {"$gte": operand}},
        {"$elemMatch": {"$eq": operand}},
    ]
    found = {path: rng.choice(operators)}
    return {"$or": [found, {"u": rng.choice(TEXTS)}]} if rng.random() < 0.3 else found


def request(rng: Random) -> dict[str, Any]:
    rules = rng.choice(RULES)
    command = rng.choice(
        [
            {"find": "c", "filter": query(rng), "sort": {"t": rng.choice([1, -1]), "_id": 1}},
            {"find": "c", "filter": query(rng), "sort": {"_id": 1}},
            {"count": "c", "query": query(rng)},
            {"distinct": "c", "key": "t", "query": query(rng)},
            {"aggregate": "c", "pipeline": [{"$match": query(rng)}, {"$sort": {"u": 1, "_id": -1}}], "cursor": {}},
        ]
    )
    return command if rules is None else {**command, "collation": rules}


def shape(reply: dict[str, Any]) -> Any:
    if "cursor" in reply:
        return reply["cursor"]["firstBatch"]
    return reply.get("n", reply.get("values", reply.get("code")))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[Any]]:
    with reference_server(tmp_path_factory.mktemp("reference")) as port:
        client: pymongo.MongoClient[Any] = pymongo.MongoClient("127.0.0.1", port)
        with client:
            yield client["collations"]


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(3))
def test_random_requests_agree_with_the_reference(database: Database[Any], seed: int) -> None:
    rng = Random(seed)
    documents = [document(rng, identity) for identity in range(60)]
    requests = [request(rng) for _ in range(150)]
    database.drop_collection("c")
    database["c"].insert_many(documents)
    expected = [shape(database.command(command, check=False)) for command in requests]

    async def work() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": documents})
        for indexes in ([], [{"t": 1}], [{"u": 1, "t": -1}], [{"$**": 1}]):
            for key in indexes:
                spec = {"key": key, "name": f"i{len(key)}{next(iter(key))}", "collation": EN2}
                await node.run({"createIndexes": "c", "indexes": [spec]})
            for command, found in zip(requests, expected, strict=True):
                reply = shape(await node.reply(command))
                if indexes and "distinct" in command:
                    # Which of several equal texts is met first is up to the plan.
                    assert len(reply) == len(found), (indexes, command)
                else:
                    assert reply == found, (indexes, command)

    loop(work())


def test_a_collection_gives_its_collation_to_identities_indexes_and_requests() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "collation": EN2})
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": True}]})
        listed = (await node.run({"listIndexes": "c"}))["cursor"]["firstBatch"]
        assert [spec["collation"]["strength"] for spec in listed] == [2, 2]
        await node.run({"insert": "c", "documents": [{"_id": "x", "a": "One"}]})
        for other in ({"_id": "X", "a": "Two"}, {"_id": "y", "a": "ONE"}):
            [error] = (await node.run({"insert": "c", "documents": [other]}))["writeErrors"]
            assert (error["code"], error["hexEncoded"], error["collation"]["locale"]) == (11000, [True], "en")
        assert shape(await node.run({"find": "c", "filter": {"_id": "X"}})) == [{"_id": "x", "a": "One"}]
        assert shape(await node.run({"find": "c", "filter": {"_id": "X"}, "collation": {"locale": "simple"}})) == []
        updated = await node.run({"update": "c", "updates": [{"q": {"_id": "X"}, "u": {"$set": {"b": 1}}}]})
        assert updated["nModified"] == 1
        simple = {"q": {"a": "one"}, "limit": 1, "collation": {"locale": "simple"}}
        assert (await node.run({"delete": "c", "deletes": [simple]}))["n"] == 0
        assert (await node.run({"delete": "c", "deletes": [{"q": {"a": "one"}, "limit": 1}]}))["n"] == 1

    loop(work())


def test_an_index_is_told_from_others_by_its_collation() -> None:
    async def work() -> None:
        node = LocalNode()
        indexes = [{"key": {"a": 1}, "name": "a"}, {"key": {"a": 1}, "name": "b", "collation": EN2}]
        await node.run({"createIndexes": "c", "indexes": indexes})
        again = {"key": {"a": 1}, "name": "d", "collation": EN2}
        refused = await node.reply({"createIndexes": "c", "indexes": [again]})
        assert refused["code"] == Code.IndexOptionsConflict
        other = {"key": {"a": 1}, "name": "a", "collation": {"locale": "fr"}}
        refused = await node.reply({"createIndexes": "c", "indexes": [other]})
        assert refused["code"] == Code.IndexKeySpecsConflict
        by_id = {"key": {"_id": 1}, "name": "_id_", "collation": EN2}
        assert (await node.reply({"createIndexes": "c", "indexes": [by_id]}))["code"] == Code.BadValue

    loop(work())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"u": {"$pull": {"l": "B"}}}, ["a", "C"]),
        ({"u": {"$pull": {"l": {"$gt": "B"}}}}, ["a", "b"]),
        ({"u": {"$pullAll": {"l": ["A", "c"]}}}, ["b"]),
        ({"u": {"$addToSet": {"l": {"$each": ["B", "d", "D"]}}}}, ["a", "b", "C", "d"]),
        ({"u": {"$push": {"l": {"$each": ["B"], "$sort": -1}}}}, ["C", "b", "B", "a"]),
        ({"u": {"$max": {"l.0": "A"}}}, ["a", "b", "C"]),
        ({"u": {"$min": {"l.1": "A"}}}, ["a", "A", "C"]),
        ({"u": {"$set": {"l.$[e]": "x"}}, "arrayFilters": [{"e": {"$lte": "B"}}]}, ["x", "x", "C"]),
        ({"q": {"l": "B"}, "u": {"$set": {"l.$": "x"}}}, ["a", "x", "C"]),
        ({"q": {"l": {"$in": ["B"]}}, "u": {"$set": {"l.$": "x"}}}, ["a", "x", "C"]),
        ({"q": {"$or": [{"l": "B"}, {"l": "z"}]}, "u": {"$set": {"l.$": "x"}}}, ["a", "x", "C"]),
        ({"u": [{"$set": {"l": {"$setUnion": ["$l", ["A", "D"]]}}}]}, ["a", "b", "C", "D"]),
    ],
)
def test_an_update_compares_by_the_collation_of_its_statement(change: dict[str, Any], expected: list[str]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"insert": "c", "documents": [{"_id": 1, "l": ["a", "b", "C"]}]})
        await node.run({"update": "c", "updates": [{"q": {}, "collation": EN2, **change}]})
        assert shape(await node.run({"find": "c"})) == [{"_id": 1, "l": expected}]

    loop(work())


def test_a_partial_index_and_a_validator_compare_by_the_collation_of_their_owner() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "collation": EN2, "validator": {"s": {"$ne": "refused"}}})
        partial = {"key": {"n": 1}, "name": "n", "partialFilterExpression": {"s": {"$gt": "B"}}}
        await node.run({"createIndexes": "c", "indexes": [partial]})
        texts = ["a", "A", "b", "B", "c", "C"]
        await node.run({"insert": "c", "documents": [{"_id": i, "s": text, "n": i} for i, text in enumerate(texts)]})
        found = shape(await node.run({"find": "c", "hint": "n"}))
        assert [each["s"] for each in found] == ["c", "C"]
        for operand, stage in (("C", "IXSCAN"), ("A", "COLLSCAN")):
            query = {"n": {"$gte": 0}, "s": {"$gte": operand}}
            for rules, expected in ((EN2, stage), ({"locale": "simple"}, "COLLSCAN")):
                asked = {"find": "c", "filter": query, "collation": rules}
                explained = await node.run({"explain": asked, "verbosity": "queryPlanner"})
                assert expected in str(explained["queryPlanner"]["winningPlan"]), (operand, rules)
        assert shape(await node.run({"count": "c", "query": {"n": {"$gte": 0}, "s": {"$gte": "C"}}})) == 2
        [error] = (await node.run({"insert": "c", "documents": [{"s": "REFUSED"}]}))["writeErrors"]
        assert error["code"] == Code.DocumentValidationFailure

    loop(work())


def test_a_key_that_several_indexes_have_names_none_of_them() -> None:
    async def work() -> None:
        node = LocalNode()
        indexes = [{"key": {"a": 1}, "name": "plain"}, {"key": {"a": 1}, "name": "folded", "collation": EN2}]
        await node.run({"createIndexes": "c", "indexes": indexes})
        assert (await node.reply({"find": "c", "hint": {"a": 1}}))["code"] == Code.IndexNotFound
        assert (await node.reply({"dropIndexes": "c", "index": {"a": 1}}))["code"] == 181
        by_text = {"find": "c", "min": {"a": "x"}, "hint": "folded"}
        assert (await node.reply(by_text))["code"] == 51174
        assert shape(await node.run({**by_text, "collation": EN2})) == []
        assert shape(await node.run({**by_text, "min": {"a": 1}})) == []

    loop(work())


def test_a_merge_needs_a_unique_index_of_its_own_collation_and_writes_under_that_of_the_target() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": "X", "k": "A"})
        await node.run({"create": "out", "collation": EN2})
        await node.insert("out", {"_id": "x", "k": "a"})
        change = [{"$set": {"same": {"$eq": ["$$new.k", "$k"]}}}]
        merge = {"aggregate": "c", "cursor": {}, "pipeline": [{"$merge": {"into": "out", "whenMatched": change}}]}
        await node.run(merge)
        assert shape(await node.run({"find": "out"})) == [{"_id": "x", "k": "a", "same": True}]
        merge["pipeline"] = [{"$merge": {"into": "out", "on": "_id", "whenMatched": change}}]
        assert (await node.reply(merge))["code"] == 51183
        await node.run({**merge, "collation": EN2})

    loop(work())


def test_explain_shows_the_collation_of_the_request_and_of_the_index() -> None:
    async def work() -> None:
        node = LocalNode()
        index = {"key": {"a": 1}, "name": "a", "collation": EN2}
        await node.run({"createIndexes": "c", "indexes": [index]})
        await node.insert("c", {"a": "x"})
        statement = {"q": {"a": "X"}, "limit": 1, "collation": EN2}
        for asked in ({"find": "c", "filter": {"a": "X"}, "collation": EN2}, {"delete": "c", "deletes": [statement]}):
            planner = (await node.run({"explain": asked, "verbosity": "queryPlanner"}))["queryPlanner"]
            assert list(planner)[2:4] == ["parsedQuery", "collation"]
            stage = planner["winningPlan"]
            while stage["stage"] != "IXSCAN":
                stage = stage["inputStage"]
            assert list(stage)[1:4] == ["keyPattern", "indexName", "collation"]
            assert stage["indexBounds"]["a"][0].startswith("[CollationKey(0x")
        plain = await node.run({"explain": {"find": "c", "filter": {"a": "X"}}, "verbosity": "queryPlanner"})
        assert "collation" not in plain["queryPlanner"]
        assert plain["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"

    loop(work())


def statement(rng: Random, rules: dict[str, Any] | None) -> dict[str, Any]:
    """A command that writes to whatever its filter finds, or to the first of that."""
    collated = {} if rules is None else {"collation": rules}
    change = rng.choice(
        [{"$set": {"u": rng.choice(TEXTS)}}, {"$push": {"v": "a"}}, {"$addToSet": {"v": "A"}}, {"$unset": {"u": 1}}]
    )
    match rng.randrange(4):
        case 0:
            return {"delete": "c", "deletes": [{"q": {**query(rng), "_id": {"$gt": 30}}, "limit": 0, **collated}]}
        case 1:
            return {"findAndModify": "c", "query": query(rng), "sort": {"_id": 1}, "update": change, **collated}
        case 2:
            upserts = {"upsert": True, "multi": True}
            return {
                "update": "c",
                "updates": [{"q": {**query(rng), "_id": rng.randrange(99)}, "u": change, **upserts, **collated}],
            }
        case _:
            return {"update": "c", "updates": [{"q": query(rng), "u": change, "multi": True, **collated}]}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("default", [None, EN2])
def test_what_is_written_at_once_is_what_the_general_way_writes(
    seed: int, default: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        rng = Random(seed)
        nodes = LocalNode(), LocalNode()
        rows = [document(rng, number) for number in range(50)]
        indexes = [
            {
                "key": {path: 1},
                "name": path,
                **rng.choice([{}, {"collation": EN2}, {"collation": {"locale": "simple"}}]),
            }
            for path in ("t", "u")
        ]
        for node in nodes:
            await node.run({"create": "c", **({} if default is None else {"collation": default})})
            await node.run({"createIndexes": "c", "indexes": indexes})
            await node.insert("c", *rows)
        for _ in range(60):
            command = statement(rng, rng.choice([None, EN2, EN2, {"locale": "simple"}, {"locale": "de"}]))
            given = await nodes[0].reply(command)
            with monkeypatch.context() as patch:
                patch.setattr(WriteTarget, "matches_at_once", lambda *_, **__: (None, None))
                patch.setattr(find_and_modify, "find_and_modify_one", lambda *_: None)
                expected = await nodes[1].reply(command)
            assert given == expected, command
            left = [await node.documents("c", {}) for node in nodes]
            assert left[0] == left[1], command

    loop(work())
