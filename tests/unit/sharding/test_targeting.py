from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.sharding.key import ShardKey
from docstore.sharding.targeting import exact_key, key_ranges, shards_for, shards_for_filter
from tests.unit.sharding.maps import EPOCH, KEY, at, chunk_map

PAIR = ShardKey(("a", "b"))


def targets(filter_document: dict[str, Any]) -> list[str]:
    chunks = chunk_map([10, 20, 30], ["s0", "s1", "s2", "s3"])
    return shards_for_filter(chunks, parse_filter(bson.encode(filter_document)))


@pytest.mark.parametrize(
    ("filter_document", "shards"),
    [
        ({"id": 10}, ["s1"]),
        ({"id": 9.5}, ["s0"]),
        ({"id": {"$in": [1, 35]}}, ["s0", "s3"]),
        ({"id": {"$gte": 10, "$lt": 20}}, ["s1"]),
        ({"id": {"$gte": 10, "$lte": 20}}, ["s1", "s2"]),
        ({"id": {"$gt": 30}}, ["s3"]),
        ({"$and": [{"id": {"$gt": 12}}, {"id": {"$lt": 18}}, {"x": 1}]}, ["s1"]),
        ({"$or": [{"id": 5}, {"id": 25}]}, ["s0", "s2"]),
        ({"x": 1}, ["s0", "s1", "s2", "s3"]),
        ({"id": {"$ne": 5}}, ["s0", "s1", "s2", "s3"]),
        ({"id": {"$lt": 5, "$gt": 50}}, ["s0"]),
        ({}, ["s0", "s1", "s2", "s3"]),
    ],
)
def test_filters_reach_the_shards_that_may_hold_matches(filter_document: dict[str, Any], shards: list[str]) -> None:
    assert targets(filter_document) == shards


def test_a_single_document_write_needs_every_field_of_the_key() -> None:
    def key_for(document: dict[str, Any]) -> bytes | None:
        return exact_key(PAIR, parse_filter(bson.encode(document)))

    assert key_for({"b": 2, "a": "x"}) == PAIR.bound(bson.encode({"a": "x", "b": 2})).key
    assert key_for({"a": "x"}) is None
    assert key_for({"a": "x", "b": {"$gt": 1}}) is None
    assert key_for({"a": "x", "b": {"$in": [1, 2]}}) is None
    assert key_for({"a": "x", "b": [1]}) is None


scalars = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([0.5, -1.5]), st.sampled_from(["", "a", "b"]), st.booleans()
)
conditions = st.one_of(
    scalars,
    st.builds(lambda op, value: {op: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]), scalars),
    st.builds(lambda several: {"$in": several}, st.lists(scalars, max_size=3)),
    st.builds(lambda low, high: {"$gte": low, "$lt": high}, scalars, scalars),
    st.just({"$exists": False}),
    st.just({"$regex": "^a"}),
)
simple = st.dictionaries(st.sampled_from(["a", "b", "c"]), conditions, max_size=3)
filters = st.one_of(
    simple,
    st.builds(lambda parts: {"$or": parts}, st.lists(simple, min_size=1, max_size=3)),
    st.builds(lambda parts, more: {"$and": parts, **more}, st.lists(simple, min_size=1, max_size=2), simple),
)
documents = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), scalars, max_size=3), min_size=1, max_size=12)


@given(filters, documents)
def test_targeting_never_misses_a_matching_document(
    filter_document: dict[str, Any], held: list[dict[str, Any]]
) -> None:
    tree = parse_filter(bson.encode(filter_document))
    matches = compile_filter(tree).matches
    for key in (PAIR, ShardKey(("a",)), ShardKey(("c", "a", "b"))):
        ranges = key_ranges(key, tree)
        fixed = exact_key(key, tree)
        for document in held:
            raw = bson.encode(document)
            if matches(raw):
                encoded = key.key_of(raw)
                assert any(low <= encoded < high for low, high in ranges)
                assert fixed is None or fixed == encoded


@given(st.integers(0, 2**32))
def test_ranges_reach_exactly_the_shards_of_their_keys(seed: int) -> None:
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(100), rng.randrange(0, 8)))
    chunks = chunk_map(cuts, [rng.choice("xyz") for _ in range(len(cuts) + 1)])
    low, high = sorted(rng.sample(range(100), 2))
    expected = {chunks.chunk_at(at(value / 2).key).shard for value in range(low * 2, high * 2)}
    assert set(shards_for(chunks, [(at(low).key, at(high).key)])) == expected
    assert chunks.epoch == EPOCH
    assert chunks.key == KEY
