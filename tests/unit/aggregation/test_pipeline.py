"""What of a pipeline becomes a find."""

from __future__ import annotations

from docstore.query.filter.parse import parse_filter
from docstore.query.sort import Sort
from tests.unit.aggregation.running import parsed
from tests.unit.query.raw import raw


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
