from __future__ import annotations

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import Code, CommandError
from docstore.sharding.key import ShardKey
from tests.unit.sharding.maps import KEY, at

values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(), st.text(max_size=5), st.binary(max_size=4)
)


def test_equal_numbers_of_different_types_are_one_key() -> None:
    assert at(1).key == at(1.0).key == at(Int64(1)).key == at(Decimal128("1")).key


@given(values)
def test_every_key_lies_between_the_ends_of_the_key_space(value: object) -> None:
    assert KEY.min.key <= at(value).key < KEY.max.key


def test_a_document_with_max_key_belongs_to_the_last_chunk() -> None:
    key = KEY.key_of(bson.encode({"id": MaxKey()}))
    assert at("z").key < key < KEY.max.key


@given(st.lists(st.tuples(values, values), min_size=1, max_size=5))
def test_a_bound_has_the_key_of_a_document_with_its_values(pairs: list[tuple[object, object]]) -> None:
    key = ShardKey(("a", "b.c"))
    for a, c in pairs:
        document = bson.encode({"b": {"c": c}, "x": 1, "a": a})
        assert key.bound(bson.encode({"a": a, "b.c": c})).key == key.key_of(document) == key.bound_of(document).key


def test_a_missing_field_counts_as_null() -> None:
    assert KEY.key_of(bson.encode({"x": 1})) == at(None).key


def test_a_prefix_of_a_compound_bound_is_filled_with_min_key() -> None:
    key = ShardKey(("a", "b"))
    assert key.prefix_bound(bson.encode({"a": 3})).key == key.bound(bson.encode({"a": 3, "b": MinKey()})).key


@pytest.mark.parametrize(
    "pattern", [{}, {"a": -1}, {"a": 2}, {"a": True}, {"a": "text"}, {"$a": 1}, {"a..b": 1}, {"": 1}]
)
def test_unusable_patterns_are_refused(pattern: dict[str, object]) -> None:
    with pytest.raises(CommandError) as caught:
        ShardKey.parse(pattern)
    assert caught.value.code == Code.BadValue


@pytest.mark.parametrize("bound", [{}, {"b": 1}, {"id": 1, "b": 1}])
def test_a_bound_with_other_fields_is_refused(bound: dict[str, object]) -> None:
    with pytest.raises(CommandError):
        KEY.bound(bson.encode(bound))


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(CommandError):
        KEY.range(bson.encode({"id": 2}), bson.encode({"id": 2.0}))


def test_an_index_serves_the_key_when_it_starts_with_it() -> None:
    key = ShardKey(("a", "b"))
    assert key.is_prefix_of((("a", 1), ("b", 1), ("c", -1)))
    assert not key.is_prefix_of((("a", 1), ("c", 1), ("b", 1)))
    assert not key.is_prefix_of((("a", 1),))


def test_an_identity_behind_other_fields_keeps_its_place() -> None:
    key = ShardKey(("user", "_id"))
    assert str(key) == "{ user: 1, _id: 1 }"
    for end in (key.min, key.max):
        assert list(bson.decode(bson.encode({"end": RawBSONDocument(end.raw)}))["end"]) == ["user", "_id"]
        assert key.bound(end.raw) == end
    document = bson.encode({"_id": 7, "user": "x"})
    assert key.bound_of(document).key == key.key_of(document)
    assert key.everything.holds(key.key_of(document))
