"""What stages do to documents, and how their specifications are refused. Expected values are the real server's."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import DocumentList
from docstore.errors import Code, CommandError
from tests.unit.aggregation.running import ENVIRONMENT, NEVER, FewAtATime, aggregate, drain, parsed, refusal
from tests.unit.query.raw import decoded, raw

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "a": 1, "t": ["x", "y"]},
    {"_id": 2, "a": 1.0, "t": []},
    {"_id": 3, "t": "z"},
    {"_id": 4, "a": None, "t": None},
    {"_id": 5, "a": {"x": 1}},
]


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([{"$match": {"a": 1, "_id": {"$gt": 1}}}], [{"_id": 2, "a": 1.0, "t": []}]),
        ([{"$match": {"$expr": {"$eq": ["$_id", 3]}}}, {"$unset": "t"}], [{"_id": 3}]),
        ([{"$skip": 1}, {"$limit": 1}, {"$project": {"t": 1}}], [{"_id": 2, "t": []}]),
        ([{"$limit": 2}, {"$skip": 1}, {"$unset": ["a", "t"]}], [{"_id": 2}]),
        (
            [{"$unwind": "$t"}, {"$project": {"t": 1}}],
            [{"_id": 1, "t": "x"}, {"_id": 1, "t": "y"}, {"_id": 3, "t": "z"}],
        ),
        (
            [
                {"$unwind": {"path": "$t", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True}},
                {"$unset": "a"},
            ],
            [
                {"_id": 1, "t": "x", "i": Int64(0)},
                {"_id": 1, "t": "y", "i": Int64(1)},
                {"_id": 2, "i": None},
                {"_id": 3, "t": "z", "i": None},
                {"_id": 4, "t": None, "i": None},
                {"_id": 5, "i": None},
            ],
        ),
        ([{"$match": {"_id": 5}}, {"$replaceRoot": {"newRoot": "$a"}}], [{"x": 1}]),
        ([{"$limit": 1}, {"$replaceWith": {"q": "$_id", "z": "$nope"}}], [{"q": 1}]),
        ([{"$count": "n"}], [{"n": 5}]),
        ([{"$match": {"_id": 99}}, {"$count": "n"}], []),
        ([{"$sortByCount": "$a"}, {"$limit": 1}], [{"_id": 1, "count": 2}]),
        ([{"$sort": {"a": 1, "_id": -1}}, {"$project": {"_id": 1}}], [{"_id": n} for n in (4, 3, 2, 1, 5)]),
        ([{"$limit": 1}, {"$addFields": {"a": "$_id", "z.y": 1, "t": "$nope"}}], [{"_id": 1, "a": 1, "z": {"y": 1}}]),
        ([{"$limit": 1}, {"$set": {"t.q": 1}}], [{"_id": 1, "a": 1, "t": [{"q": 1}, {"q": 1}]}]),
        ([{"$limit": 1}, {"$project": {"a": "$t", "t": "$a"}}], [{"_id": 1, "a": ["x", "y"], "t": 1}]),
        ([{"$limit": 1}, {"$project": {"a.z": "$_id", "t": 1}}], [{"_id": 1, "a": {"z": 1}, "t": ["x", "y"]}]),
        ([{"$documents": [{"x": 1}, {"x": {"$add": [1, 1]}}]}], [{"x": 1}, {"x": 2}]),
        (
            [{"$limit": 1}, {"$project": {"t.$id": "$a"}}, {"$group": {"_id": "$t.$id"}}, {"$sort": {"$id": 1}}],
            [{"_id": [1, 1]}],
        ),
    ],
)
def test_results(stages: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    given = [] if "$documents" in stages[0] else DOCUMENTS

    assert [list(found.items()) for found in aggregate(stages, given)] == [list(wanted.items()) for wanted in expected]


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$foo": 1}, 40324),
        ({}, 40323),
        ({"$match": {}, "$limit": 1}, 40323),
        ({"$geoNear": {}}, 5860400),
        ({"$match": 5}, 15959),
        ({"$sort": {}}, 15976),
        ({"$sort": 5}, 15973),
        ({"$limit": 0}, 15958),
        ({"$limit": 1.5}, 5107201),
        ({"$skip": -1}, 5107200),
        ({"$unwind": "t"}, 28818),
        ({"$unwind": 5}, 15981),
        ({"$unwind": {}}, 28812),
        ({"$unwind": {"path": "$t", "x": 1}}, 28811),
        ({"$unwind": {"path": "$t", "includeArrayIndex": "$i"}}, 28822),
        ({"$unwind": {"path": "$t", "preserveNullAndEmptyArrays": 1}}, 28809),
        ({"$count": ""}, 40157),
        ({"$count": 5}, 40156),
        ({"$count": "_id"}, 15948),
        ({"$sortByCount": "a"}, 40148),
        ({"$sortByCount": {"x": 1}}, 40147),
        ({"$replaceRoot": {}}, 40414),
        ({"$replaceRoot": {"newRoot": 5}}, 40228),
        ({"$project": {}}, 51272),
        ({"$project": 5}, 15969),
        ({"$project": {"a": 1, "b": 0}}, 31254),
        ({"$project": {"a": 0, "b": {"$add": [1]}}}, 31252),
        ({"$project": {"a": {"$foo": 1}}}, 31325),
        ({"$project": {"a.$": 1}}, 31324),
        ({"$addFields": {"a": 1, "a.b": 1}}, 40176),
        ({"$addFields": {"a": {}}}, 40180),
        ({"$addFields": 5}, 40272),
        ({"$unset": []}, 31119),
        ({"$unset": [5]}, 31120),
        ({"$unset": ["a", "a.b"]}, 31249),
        ({"$group": 5}, 15947),
        ({"$group": {}}, 15955),
        ({"$group": {"_id": 1, "a.b": {"$sum": 1}}}, 40235),
        ({"$group": {"_id": 1, "$r": {"$sum": 1}}}, 40236),
        ({"$group": {"_id": 1, "r": 5}}, 40234),
        ({"$group": {"_id": 1, "r": {"$sum": 1, "$avg": 1}}}, 40238),
        ({"$group": {"_id": 1, "r": {"$sum": [1, 2]}}}, 40237),
        ({"$group": {"_id": 1, "r": {"$foo": 1}}}, 15952),
        ({"$group": {"_id": 1, "r": {"$topN": 1}}}, 5788001),
        ({"$group": {"_id": 1, "r": {"$accumulator": 1}}}, 4660800),
        ({"$group": {"_id": 1, "r": {"$count": 1}}}, Code.TypeMismatch),
        ({"$collStats": 5}, 5447000),
        ({"$collStats": {"bogus": {}}}, 40415),
    ],
)
def test_refusals(stage: dict[str, Any], code: int) -> None:
    assert refusal([stage], DOCUMENTS) == code


@pytest.mark.parametrize("name", ["$currentOp", "$listLocalSessions", "$listSessions"])
def test_what_users_do_is_shown_by_no_sub_pipeline(name: str) -> None:
    """A shard runs these as the cluster's own user, who may see the operations of everybody."""
    inner: list[dict[str, Any]] = [{name: {}}]
    union = {"$unionWith": {"coll": "d", "pipeline": inner}}
    nested = {"$lookup": {"from": "d", "as": "r", "pipeline": [{"$facet": {"f": [union]}}]}}
    for stage in ({"$lookup": {"from": "d", "as": "r", "pipeline": inner}}, union, nested):
        assert refusal([stage], DOCUMENTS) == Code.InvalidNamespace


def test_a_stage_that_makes_documents_stands_first() -> None:
    assert refusal([{"$match": {}}, {"$documents": []}]) == 40602


def test_a_pipeline_has_at_most_a_thousand_stages() -> None:
    assert refusal([{"$limit": 1}] * 1001) == Code.FailedToParse


def test_statistics_come_from_the_environment() -> None:
    environment = Environment(clock=lambda: 0.0, process_documents=lambda name, options: [raw({name: 3})])

    assert drain(parsed([{"$collStats": {"count": {}}}]).open_own(environment)) == [raw({"$collStats": 3})]


def test_a_reached_limit_wants_no_more_input() -> None:
    class Endless:
        def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
            return [raw({"_id": number}) for number in range(5)], False

    stream = parsed([{"$limit": 2}, {"$group": {"_id": None, "n": {"$sum": 1}}}]).open(Endless(), ENVIRONMENT)

    assert drain(stream) == [raw({"_id": None, "n": 2})]


@pytest.mark.parametrize("stage", [{"$sort": {"x": 1}}, {"$group": {"_id": "$x", "all": {"$push": "$$ROOT"}}}])
def test_a_blocking_stage_holds_so_much_and_no_more(stage: dict[str, Any]) -> None:
    documents = [raw({"_id": number, "x": "y" * 1000}) for number in range(20)]
    stream = parsed([stage]).open(FewAtATime(documents), Environment(clock=lambda: 0.0, memory_limit=10_000))

    with pytest.raises(CommandError) as refused:
        drain(stream)
    assert refused.value.code == Code.QueryExceededMemoryLimitNoDiskUseAllowed


def test_a_sort_with_a_limit_holds_only_the_best() -> None:
    documents = [raw({"_id": number, "x": number * 7919 % 10007}) for number in range(50_000)]
    environment = Environment(clock=lambda: 0.0, memory_limit=4_000_000)

    found = drain(parsed([{"$sort": {"x": -1}}, {"$limit": 3}]).open(DocumentList(documents), environment))

    best = sorted((number * 7919 % 10007 for number in range(50_000)), reverse=True)[:3]
    assert [decoded(document)["x"] for document in found] == best


def test_a_sort_is_stable_across_its_runs() -> None:
    stages = [{"$sort": {"k": 1}}]
    given = [{"_id": number, "k": number % 3} for number in range(20_000)]

    found = aggregate(stages, given)

    assert [(item["k"], item["_id"]) for item in found] == sorted((item["k"], item["_id"]) for item in given)


def test_a_deadline_cuts_what_is_handed_out_at_once() -> None:
    stream = parsed([{"$sort": {"k": 1}}]).open(
        DocumentList([raw({"k": number}) for number in range(100)] * 10), ENVIRONMENT
    )
    first: list[bytes] = []
    while not first:
        first, done = stream.next_batch(NEVER)

    assert len(first) == 128
    assert not done


@pytest.mark.parametrize(
    "stage",
    [
        {"$bucketAuto": {"groupBy": "$n", "buckets": 1}},
        {"$bucketAuto": {"groupBy": "$n", "buckets": 1, "granularity": "POWERSOF2"}},
        {"$sample": {"size": 30_000}},
        {"$sort": {"n": -1}},
        {"$group": {"_id": "$n"}},
        {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"r": {"$rank": {}}}}},
    ],
)
def test_a_stage_that_had_to_wait_for_all_stops_in_between_when_its_time_is_up(stage: dict[str, Any]) -> None:
    documents = [raw({"_id": number, "n": number + 1}) for number in range(30_000)]
    environment = Environment(clock=lambda: 0.0, rng=random.Random(1).random)
    stream = parsed([stage]).open(DocumentList(documents), environment)
    steps = 0
    last = False
    while not last:
        _, last = stream.next_batch(NEVER)
        steps += 1
    taken_in = len(documents) / 128
    assert steps > taken_in + 3


def test_a_document_within_a_set_names_no_paths() -> None:
    for stage in ({"$set": {"a": {"b.c": 1}}}, {"$addFields": {"a.b": {"c": {"d.e": 1}}}}):
        assert refusal([stage]) == 40183
    assert aggregate([{"$set": {"a.b": {"c": 1}}}], [{"_id": 1}]) == [{"_id": 1, "a": {"b": {"c": 1}}}]
