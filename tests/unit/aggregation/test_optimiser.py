"""The order of stages: what moves, what stays, and that the results are those of the pipeline as it was written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.aggregation import parse
from docstore.aggregation.stage import Stage
from docstore.bson import document_to_python
from docstore.errors import CommandError
from tests.unit.aggregation.running import ENVIRONMENT, FewAtATime, drain, parsed
from tests.unit.query.raw import decoded, raw

CASES = 2000
Stages = list[dict[str, Any]]


def shown(stages: tuple[Stage, ...]) -> list[Any]:
    return [document_to_python(stage.raw) for stage in stages]


@pytest.mark.parametrize(
    ("written", "better"),
    [
        pytest.param(
            [{"$group": {"_id": "$a.b", "n": {"$sum": 1}}}, {"$match": {"_id": {"$gt": 3}, "n": 2}}],
            [
                {"$match": {"a.b": {"$gt": 3}}},
                {"$group": {"_id": "$a.b", "n": {"$sum": 1}}},
                {"$match": {"_id": {"$gt": 3}, "n": 2}},
            ],
            id="said of the key of a group too",
        ),
        pytest.param(
            [{"$group": {"_id": {"x": "$a", "y": "$b"}}}, {"$match": {"$or": [{"_id.x": 1}, {"_id.y": "z"}]}}],
            [
                {"$match": {"$or": [{"a": 1}, {"b": "z"}]}},
                {"$group": {"_id": {"x": "$a", "y": "$b"}}},
                {"$match": {"$or": [{"_id.x": 1}, {"_id.y": "z"}]}},
            ],
            id="said of parts of the key of a group too",
        ),
        pytest.param(
            [{"$project": {"x": "$a.b"}}, {"$match": {"x.c": {"$in": [1, 2]}}}],
            [
                {"$match": {"a.b.c": {"$in": [1, 2]}}},
                {"$project": {"x": "$a.b"}},
                {"$match": {"x.c": {"$in": [1, 2]}}},
            ],
            id="said of a renamed field too",
        ),
        pytest.param(
            [{"$group": {"_id": "$a"}}, {"$match": {"_id": None}}, {"$match": {"_id": {"$ne": 2}}}],
            [{"$group": {"_id": "$a"}}, {"$match": {"$and": [{"_id": None}, {"_id": {"$ne": 2}}]}}],
            id="nothing said of what is not there",
        ),
        pytest.param(
            [{"$set": {"z": 1}}, {"$match": {"a": 1, "z": 2}}],
            [{"$match": {"a": 1}}, {"$set": {"z": 1}}, {"$match": {"z": 2}}],
            id="in front of computed fields",
        ),
        pytest.param(
            [{"$unwind": "$b"}, {"$match": {"$and": [{"a": 1}, {"b.c": 2}]}}],
            [{"$match": {"a": 1}}, {"$unwind": "$b"}, {"$match": {"b.c": 2}}],
            id="in front of an unwind",
        ),
        pytest.param(
            [{"$project": {"a": 1}}, {"$match": {"a.b": 1}}],
            [{"$match": {"a.b": 1}}, {"$project": {"a": 1}}],
            id="of a field that is kept",
        ),
        pytest.param(
            [{"$project": {"a": 1}}, {"$match": {"b": None}}],
            [{"$project": {"a": 1}}, {"$match": {"b": None}}],
            id="not of one that is gone",
        ),
        pytest.param(
            [{"$limit": 2}, {"$match": {"a": 1}}], [{"$limit": 2}, {"$match": {"a": 1}}], id="never before a limit"
        ),
        pytest.param(
            [{"$unset": "b"}, {"$match": {"$expr": {"$eq": ["$a", "$b"]}}}],
            [{"$unset": "b"}, {"$match": {"$expr": {"$eq": ["$a", "$b"]}}}],
            id="not an expression of a field that is gone",
        ),
        pytest.param(
            [{"$unset": "b"}, {"$match": {"$expr": {"$eq": ["$a", "$c.d"]}}}],
            [{"$match": {"$expr": {"$eq": ["$a", "$c.d"]}}}, {"$unset": "b"}],
            id="an expression of others",
        ),
        pytest.param(
            [{"$unset": "b"}, {"$match": {"$expr": {"$eq": ["$$ROOT", 1]}}}],
            [{"$unset": "b"}, {"$match": {"$expr": {"$eq": ["$$ROOT", 1]}}}],
            id="not an expression of the whole document",
        ),
        pytest.param(
            [{"$sort": {"a": 1}}, {"$project": {"b": 1}}, {"$limit": 7}, {"$limit": 3}],
            [{"$sort": {"a": 1}}, {"$limit": 3}, {"$project": {"b": 1}}],
            id="limits come to the sort",
        ),
        pytest.param(
            [{"$group": {"_id": "$a"}}, {"$match": {"a": 1}}, {"$match": {"b": 2}}],
            [{"$group": {"_id": "$a"}}, {"$match": {"$and": [{"a": 1}, {"b": 2}]}}],
            id="neighbours become one",
        ),
    ],
)
def test_stages_stand_where_they_have_least_to_do(written: Stages, better: Stages) -> None:
    assert shown(parsed(written).stages) == better


VALUES: list[Any] = [None, 0, 1, 2, "a", [], [1, 2], [None], {"x": 1}, {"x": [1, 2]}, [{"x": 1}, {"x": 2}, 3], [[1]]]


def path(rng: random.Random) -> str:
    return rng.choice(["a", "b", "c", "a.x", "b.x", "a.0", "i", "_id", "_id.x"])


def condition(rng: random.Random) -> dict[str, Any]:
    kind = rng.randrange(5)
    if kind == 0:
        return {"$expr": {rng.choice(["$eq", "$lt"]): ["$" + rng.choice(["a", "b", "a.x"]), rng.choice(["$c", 1])]}}
    if kind == 1:
        return {rng.choice(["$or", "$and", "$nor"]): [condition(rng), condition(rng)]}
    test = rng.choice([{"$gt": 0}, {"$exists": False}, {"$ne": 1}, {"$type": "array"}, {"$in": [None, 2]}, 1, None])
    return {path(rng): test, **({path(rng): 1} if kind == 2 else {})}


def stage(rng: random.Random) -> dict[str, Any]:
    field = rng.choice(["a", "b", "c", "a.x"])
    return rng.choice(
        [
            {"$match": condition(rng)},
            {"$match": condition(rng)},
            {"$project": {field: rng.choice([0, 1])}},
            {"$project": {"a": 1, "c": "$" + field}},
            {"$set": {field: rng.choice(["$b", 1])}},
            {"$unset": [field]},
            {"$unwind": {"path": "$" + field, "preserveNullAndEmptyArrays": rng.random() < 0.5,
                         **({"includeArrayIndex": "i"} if rng.random() < 0.3 else {})}},
            {"$sort": {field: 1, "_id": 1}},
            {"$limit": rng.randint(1, 12)},
            {"$skip": rng.randint(0, 4)},
            {"$replaceRoot": {"newRoot": {"_id": "$_id", "a": "$b", "b": "$" + field}}},
            {"$group": {"_id": "$" + field, "a": {"$first": "$a"}, "b": {"$sum": 1}}},
            {"$group": {"_id": {"x": "$" + field, "y": "$c"}, "c": {"$push": "$a"}}},
            {"$set": {"a": "$" + field, "c": "$b"}},
        ]
    )  # fmt: skip


def results(stages: Stages, documents: list[bytes]) -> Any:
    try:
        stream = parsed(stages).open(FewAtATime(documents), ENVIRONMENT)
        return [decoded(document) for document in drain(stream)]
    except CommandError as error:
        return error.code


def test_the_order_of_stages_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(61)
    cases = []
    for _ in range(CASES):
        documents = [
            raw({"_id": number, **{name: rng.choice(VALUES) for name in ("a", "b", "c") if rng.random() < 0.8}})
            for number in range(rng.randint(1, 12))
        ]
        stages = [stage(rng) for _ in range(rng.randint(2, 6))]
        cases.append((stages, documents, results(stages, documents)))
    monkeypatch.setattr(parse, "optimised", lambda stages, query_context: list(stages))

    for stages, documents, found in cases:
        expected = results(stages, documents)
        # A document that a filter has kept away cannot cause an error.
        assert found == expected or isinstance(expected, int), stages


def test_filters_that_meet_one_after_the_other_are_not_nested() -> None:
    stages: Stages = [{"$match": {"a": 1}}, {"$set": {"x": 1}}] * 490
    first = document_to_python(parsed(stages).stages[0].raw)
    assert first == {"$match": {"$and": [{"a": 1}] * 490}}
