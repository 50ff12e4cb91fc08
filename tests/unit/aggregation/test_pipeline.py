"""What of a pipeline becomes a find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstore.aggregation.stage import Environment, Stream
from docstore.aggregation.streams import DocumentList
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.sort import Sort
from tests.unit.aggregation.running import ENVIRONMENT, NEVER, FewAtATime, drain, parsed
from tests.unit.query.raw import decoded, raw

Pipeline = list[dict[str, Any]]


def test_matches_sort_skip_and_limit_at_the_beginning_are_a_find() -> None:
    pipeline = parsed(
        [{"$match": {"a": 1}}, {"$match": {"b": 2}}, {"$sort": {"c": 1}}, {"$skip": 3}, {"$limit": 4}, {"$count": "n"}]
    )

    query, rest = pipeline.find_query()

    assert query.filter == parse_filter(raw({"a": 1, "b": 2}))
    assert (query.sort, query.skip, query.limit) == (Sort((("c", 1),)), 3, 4)
    assert len(rest.stages) == 2


def test_a_match_behind_a_sort_is_part_of_the_find() -> None:
    query, rest = parsed([{"$sort": {"c": 1}}, {"$match": {"a": 1}}]).find_query()

    assert (query.filter, query.sort) == (parse_filter(raw({"a": 1})), Sort((("c", 1),)))
    assert rest.stages == ()


def test_a_sort_behind_a_limit_stays_in_the_pipeline() -> None:
    query, rest = parsed([{"$limit": 4}, {"$sort": {"c": 1}}]).find_query()

    assert (query.limit, bool(query.sort), len(rest.stages)) == (4, False, 1)


def test_a_match_behind_a_limit_stays_in_the_pipeline() -> None:
    query, rest = parsed([{"$limit": 4}, {"$match": {"a": 1}}]).find_query()

    assert query.filter == parse_filter(raw({}))
    assert len(rest.stages) == 1


def test_shards_are_chosen_by_the_leading_matches() -> None:
    pipeline = parsed([{"$match": {"a": 1}}, {"$unwind": "$t"}, {"$match": {"t": 2}}])

    assert pipeline.leading_filter() == parse_filter(raw({"a": 1}))


def test_a_source_of_its_own_reads_no_collection() -> None:
    assert parsed([{"$documents": []}]).has_source
    assert not parsed([{"$documents": []}]).needs_collection
    assert parsed([{"$collStats": {}}]).needs_collection
    assert not parsed([{"$match": {}}]).has_source


LONG: dict[str, tuple[dict[str, Any], int]] = {
    "$addFields": ({"$addFields": {"n": {"$add": ["$n", 1]}}}, 999),
    "$unwind": ({"$unwind": "$n"}, 0),
    "$group": ({"$group": {"_id": "$_id", "n": {"$sum": "$n"}}}, 0),
    "$sort": ({"$sort": {"n": 1}}, 0),
    "$facet": ({"$facet": {"c": [{"$count": "c"}], "n": [{"$match": {}}]}}, 0),
}
"""A stage of which 999 are run, and the least `n` that comes out."""


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("source", [DocumentList, FewAtATime])
def test_a_thousand_stages_run_in_little_of_the_stack(name: str, source: Callable[[list[bytes]], Stream]) -> None:
    stage, expected = LONG[name]
    given = [raw({"_id": number, "n": number}) for number in range(10)]

    environment = Environment(clock=ENVIRONMENT.clock)
    found = drain(parsed([{"$limit": 10}, *[stage] * 999]).open(source(given), environment))
    environment.buffers.close()

    if name == "$facet":
        assert len(found) == 1
    else:
        assert sorted(decoded(document)["n"] for document in found) == list(range(expected, expected + 10))


def test_a_limit_behind_many_stages_reads_no_more_than_it_must() -> None:
    source = FewAtATime([raw({"_id": number}) for number in range(1_000)])

    found = drain(parsed([*[{"$unwind": "$_id"}] * 50, {"$limit": 7}]).open(source, ENVIRONMENT))

    assert [decoded(document)["_id"] for document in found] == list(range(7))
    assert not source.next_batch(NEVER)[1], "much is left"


def nested(depth: int, kind: str) -> Pipeline:
    stages: Pipeline = []
    for _ in range(depth):
        options: dict[str, Any] = {"pipeline": stages}
        options |= {"coll": "c"} if kind == "$unionWith" else {"from": "c", "as": "r"}
        stages = [{kind: options}]
    return stages


@pytest.mark.parametrize("kind", ["$lookup", "$unionWith"])
def test_pipelines_nest_twenty_deep(kind: str) -> None:
    parsed(nested(20, kind))
    parsed([{"$facet": {"f": nested(20, kind)}}])

    with pytest.raises(CommandError) as refused:
        parsed(nested(21, kind))
    assert refused.value.code == Code.MaxSubPipelineDepthExceeded
