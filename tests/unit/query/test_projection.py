from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.aggregation.expression_context import FULL
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import (
    DROP,
    KEEP,
    Branch,
    PathCollision,
    Projection,
    plant,
    projection_of,
)
from tests.unit.query.raw import decoded, raw

DOCUMENT = {
    "_id": 1,
    "a": 5,
    "b": {"c": 1, "d": [1, 2]},
    "e": [{"x": 1, "y": 2}, 7, [{"x": 3, "y": 4}]],
}


def project(specification: dict[str, Any], document: dict[str, Any] | None = None) -> dict[str, Any]:
    projection = parse_projection(raw(specification), query_context=FULL)
    assert projection is not None
    return decoded(projection.apply(raw(document or DOCUMENT)))


def code_of(specification: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        parse_projection(raw(specification), query_context=FULL)
    return refused.value.code


def test_an_empty_projection_is_none() -> None:
    assert parse_projection(raw({})) is None


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ({"a": 1}, {"_id": 1, "a": 5}),
        ({"a": True, "_id": 0}, {"a": 5}),
        ({"_id": 1}, {"_id": 1}),
        ({"b.c": 1}, {"_id": 1, "b": {"c": 1}}),
        ({"b": {"c": 1}}, {"_id": 1, "b": {"c": 1}}),
        ({"e.x": 1}, {"_id": 1, "e": [{"x": 1}, [{"x": 3}]]}),
        ({"a.z": 1}, {"_id": 1}),
        ({"_id": 0, "a": 0, "e": 0}, {"b": {"c": 1, "d": [1, 2]}}),
        ({"a": 0, "e": 0, "b.d": -0.0}, {"_id": 1, "b": {"c": 1}}),
        ({"e.x": 0, "b": 0}, {"_id": 1, "a": 5, "e": [{"y": 2}, 7, [{"y": 4}]]}),
        ({"b.d": {"$slice": -1}, "a": 1}, {"_id": 1, "a": 5, "b": {"d": [2]}}),
        ({"b.d": {"$slice": [1, 5]}, "e": 0}, {"_id": 1, "a": 5, "b": {"c": 1, "d": [2]}}),
        ({"e": {"$slice": 1}, "_id": 1}, {"_id": 1, "e": [{"x": 1, "y": 2}]}),
        ({"e": {"$elemMatch": {"x": 1}}}, {"_id": 1, "e": [{"x": 1, "y": 2}]}),
        ({"e": {"$elemMatch": {"$gt": 5}}}, {"_id": 1, "e": [7]}),
        ({"e": {"$elemMatch": {"x": 9}}}, {"_id": 1}),
    ],
)
def test_results(specification: dict[str, Any], expected: dict[str, Any]) -> None:
    assert project(specification) == expected


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ({"r.$id": 1}, {"_id": 1, "r": {"$id": 7}}),
        ({"r.$id": 0, "_id": 0}, {"r": {"$ref": "c"}}),
        ({"r": {"$id": 1}}, {"_id": 1, "r": {"$id": 7}}),
        ({"r": {"$ref": 0}}, {"_id": 1, "r": {"$id": 7}}),
        ({"v": "$r.$id"}, {"_id": 1, "v": 7}),
        ({"$id": "$r.$ref"}, {"_id": 1, "$id": "c"}),
    ],
)
def test_fields_of_references(specification: dict[str, Any], expected: dict[str, Any]) -> None:
    assert project(specification, {"_id": 1, "r": {"$ref": "c", "$id": 7}}) == expected


def test_fields_keep_their_stored_order() -> None:
    assert list(project({"b": 1, "a": 1})) == ["_id", "a", "b"]


def test_an_element_found_comes_behind_the_fields_that_are_included() -> None:
    assert list(project({"a": {"$elemMatch": {}}, "e": {"$elemMatch": {"x": 1}}, "b": 1})) == ["_id", "b", "e"]


def test_bytes_of_what_is_kept_do_not_change() -> None:
    document = raw({"_id": 1, "a": {"x": float("nan"), "y": -0.0}, "b": 1})
    projection = parse_projection(raw({"b": 0}))
    assert projection is not None

    assert projection.apply(document) == raw({"_id": 1, "a": {"x": float("nan"), "y": -0.0}})


@pytest.mark.parametrize(
    ("specification", "code"),
    [
        ({"a": 1, "b": 0}, 31254),
        ({"a": 0, "b": 1}, 31253),
        ({"b": 1, "b.c": 1}, 31249),
        ({"b.c": 1, "b": 1}, 31250),
        ({"": 1}, 40352),
        ({"a.": 1}, 40353),
        ({".a": 1}, 15998),
        ({"$a": 1}, 16410),
        ({"a.$idx": 1}, 16410),
        ({"a": {"$idx": 1}}, 31325),
        ({"a": {}}, 51270),
        ({"b.d": {"$elemMatch": {}}}, 31275),
        ({"e": {"$elemMatch": 1}}, 31274),
        ({"e": {"$slice": "x"}}, 28667),
        ({"e": {"$slice": [1, -1]}}, 28724),
        ({"e.$": 0}, 31395),
        ({"e.$": "x"}, 31308),
        ({"e.$": {"$slice": 1}}, 31271),
        ({"e.$": 1, "f.$": 1}, 31276),
        ({"e.$": 1, "f": {"$elemMatch": {"$gt": 1}}}, 31255),
        ({"b": 0, "a": "$b"}, 31310),
        ({"_id": 0, "_id.x": 1}, 31249),
        ({"a": {"$meta": "textScore"}}, 40218),
        ({"a": {"$meta": "sortKey"}}, Code.NotImplemented),
        ({"a": {"$meta": "foo"}}, 17308),
        ({"a": {"$meta": 5}}, 17307),
    ],
)
def test_refusals(specification: dict[str, Any], code: int) -> None:
    assert code_of(specification) == code


def positional(condition: dict[str, Any], path: str, document: dict[str, Any]) -> dict[str, Any]:
    projection = parse_projection(raw({path: 1}), tree=parse_filter(raw(condition)))
    assert projection is not None
    return decoded(projection.apply(raw(document)))


def test_a_positional_projection_keeps_the_element_that_the_filter_matched() -> None:
    document = {"_id": 1, "a": [1, 2, 3], "o": [{"t": [1], "u": 1}, {"t": [3], "u": 2}]}
    assert positional({"a": {"$gt": 1}}, "a.$", document) == {"_id": 1, "a": [2]}
    assert positional({"o.t": 3}, "o.t.$", document) == {"_id": 1, "o": [{"t": [3]}]}
    assert positional({"a": 3}, "a.$", {"_id": 1, "a": 3}) == {"_id": 1, "a": 3}


def test_a_positional_projection_needs_an_element() -> None:
    document = {"_id": 1, "a": [1, 2, 3], "b": [1]}
    with pytest.raises(CommandError) as refused:
        positional({"_id": 1}, "a.$", document)
    assert refused.value.code == 51246
    with pytest.raises(CommandError) as refused:
        positional({"a": 3}, "b.$", document)
    assert refused.value.code == 51247


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"a": 1, "$expr": True}, Code.QueryFeatureNotAllowed),
        ({"$nor": [{"$jsonSchema": {"required": ["x"]}}]}, Code.QueryFeatureNotAllowed),
        ({"$text": {"$search": "x"}}, Code.BadValue),
        ({"a": 1, "g": {"$near": [1, 1]}}, 5626500),
    ],
)
def test_beside_a_positional_projection_all_conditions_are_on_elements(condition: dict[str, Any], code: int) -> None:
    tree = parse_filter(raw(condition), query_context=FULL)
    with pytest.raises(CommandError) as refused:
        parse_projection(raw({"a.$": 1, "b": 0}), tree=tree)
    assert refused.value.code == code


def test_a_slice_of_another_form_is_the_expression() -> None:
    assert project({"x": {"$slice": ["$a", 1]}}, {"_id": 1, "a": [1, 2]}) == {"_id": 1, "x": [1]}


def test_metadata_that_no_document_has_leave_the_field_out() -> None:
    assert project({"a": {"$meta": "searchScore"}}, {"_id": 1, "a": 1, "b": 2}) == {"_id": 1, "b": 2}


def test_picked_elements_stand_behind_in_the_order_of_the_projection() -> None:
    specification = {"r": {"$elemMatch": {"$gt": 1}}, "a": {"$elemMatch": {"$gt": 1}}}
    assert list(project(specification, {"_id": 1, "a": [2], "r": [2]})) == ["_id", "r", "a"]


_VALUES = st.recursive(
    st.integers(0, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3),
    st.lists(st.sampled_from(["a", "a.b", "a.b.c", "b.a", "b.c", "c.c.a", "_id"]), min_size=1, max_size=4, unique=True),
    st.booleans(),
)
def test_the_kernel_makes_of_plain_trees_what_the_walk_does(
    document: dict[str, Any], paths: list[str], keep_others: bool
) -> None:
    root = Branch()
    for path in paths:
        with contextlib.suppress(PathCollision):
            plant(root, path, DROP if keep_others else KEEP)
    stored = raw({"_id": 1, **document})
    assert projection_of(root, keep_others=keep_others).apply(stored) == Projection(root, keep_others).apply(stored)
