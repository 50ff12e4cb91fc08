"""The halves of a pipeline over any division of the documents give what the whole gives over all of them."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.aggregation.parse import parse_written
from docstore.aggregation.split import split_pipeline
from docstore.query.context import PLAIN
from tests.unit.aggregation.running import ENVIRONMENT, FewAtATime, drain, parsed
from tests.unit.query.raw import decoded, raw

NUMBERS = st.integers(-5, 5) | st.sampled_from([1.5, Int64(2), Decimal128("0.5"), None, "x"])
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from(["a", "b", "c", None])},
        optional={"v": NUMBERS, "t": st.lists(st.sampled_from("xyz"), max_size=3), "d": st.floats(-1e6, 1e6)},
    ),
    max_size=20,
)
ACCUMULATORS: dict[str, Any] = {
    "n": {"$sum": 1},
    "sum": {"$sum": "$v"},
    "avg": {"$avg": "$v"},
    "median": {"$median": {"input": "$v", "method": "approximate"}},
    "percentile": {"$percentile": {"input": "$v", "p": [0.1, 0.9], "method": "approximate"}},
    "doubles": {"$sum": "$d"},
    "min": {"$min": "$v"},
    "max": {"$max": "$v"},
    "dev": {"$stdDevPop": "$v"},
}
PIPELINES: list[list[dict[str, Any]]] = [
    [{"$match": {"v": {"$gt": 0}}}, {"$project": {"v": 1}}],
    [{"$group": {"_id": "$k", **ACCUMULATORS}}],
    [{"$unwind": "$t"}, {"$group": {"_id": "$t", "n": {"$count": {}}}}, {"$sort": {"n": -1, "_id": 1}}, {"$limit": 2}],
    [{"$sort": {"v": 1, "_id": 1}}, {"$skip": 2}, {"$limit": 3}],
    [{"$sort": {"k": -1, "_id": 1}}, {"$group": {"_id": None, "first": {"$first": "$_id"}, "all": {"$push": "$_id"}}}],
    [{"$count": "n"}],
    [{"$sortByCount": "$k"}, {"$match": {"count": {"$gt": 1}}}, {"$sort": {"_id": 1}}],
    [{"$match": {"k": "a"}}, {"$addFields": {"w": {"$add": ["$d", 1]}}}, {"$sort": {"w": 1, "_id": 1}}],
    [{"$replaceWith": {"k": "$k"}}, {"$group": {"_id": "$k", "set": {"$addToSet": "$k"}}}, {"$sort": {"_id": 1}}],
]


def whole(stages: list[dict[str, Any]], documents: list[bytes]) -> list[bytes]:
    return drain(parsed(stages).open(FewAtATime(documents), ENVIRONMENT))


def in_halves(stages: list[dict[str, Any]], documents: list[bytes], shards: int) -> list[bytes]:
    split = split_pipeline(parsed(stages))
    shard_half, merge_half = (parse_written(stages, PLAIN) for stages in (split.shard_stages, split.merge_stages))
    parts = [drain(shard_half.open(FewAtATime(documents[shard::shards]), ENVIRONMENT)) for shard in range(shards)]
    merged = [document for part in parts for document in part]
    if split.merge_sort is not None:
        key = split.merge_sort.pattern().sort_key
        for part in parts:
            assert part == sorted(part, key=key)
        merged.sort(key=key)
    return drain(merge_half.open(FewAtATime(merged), ENVIRONMENT))


def comparable(documents: list[bytes]) -> list[dict[str, Any]]:
    return sorted((decoded(document) for document in documents), key=lambda found: repr(found.get("_id")))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PIPELINES), DOCUMENTS, st.integers(1, 4))
def test_halves_give_what_the_whole_gives(
    stages: list[dict[str, Any]], contents: list[dict[str, Any]], shards: int
) -> None:
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]

    expected = comparable(whole(stages, documents))
    found = comparable(in_halves(stages, documents, shards))

    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, wanted in theirs.items():
            close = pytest.approx(wanted, rel=1e-12, abs=1e-9) if isinstance(wanted, float) else wanted
            assert ours[name] == close
            if name not in ("min", "max"):
                assert type(ours[name]) is type(wanted), "of equal extremes any may be shown, sums have one type"


def test_an_any_order_limit_is_applied_on_both_sides() -> None:
    split = split_pipeline(parsed([{"$match": {"a": 1}}, {"$skip": 2}, {"$limit": 3}, {"$unwind": "$t"}]))

    assert split.shard_stages == [raw({"$match": {"a": 1}}), raw({"$limit": Int64(5)})]
    assert split.merge_stages == [raw({"$skip": Int64(2)}), raw({"$limit": Int64(3)}), raw({"$unwind": "$t"})]
    assert split.merge_sort is None


def test_a_sorted_merge_keeps_its_order_and_limits_the_shards() -> None:
    split = split_pipeline(parsed([{"$sort": {"a": -1}}, {"$limit": 3}]))

    assert split.shard_stages == [raw({"$sort": {"a": -1}}), raw({"$limit": Int64(3)})]
    assert split.merge_stages == [raw({"$limit": Int64(3)})]
    assert split.merge_sort is not None
    assert split.merge_sort.fields == (("a", -1),)


def test_statistics_are_those_of_every_shard() -> None:
    split = split_pipeline(parsed([{"$collStats": {"count": {}}}, {"$group": {"_id": None, "n": {"$sum": "$count"}}}]))

    assert split.shard_stages[0] == raw({"$collStats": {"count": {}}})
    assert len(split.merge_stages) == 1


def test_what_stays_document_by_document_runs_on_the_shards_alone() -> None:
    stages = [{"$match": {"a": 1}}, {"$unwind": "$t"}, {"$project": {"t": 1}}]

    split = split_pipeline(parsed(stages))

    assert (split.shard_stages, split.merge_stages) == ([raw(stage) for stage in stages], [])
