from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code, CommandError
from docstore.query.projection_parse import parse_projection
from tests.unit.query.raw import decoded, raw

DOCUMENT = {
    "_id": 1,
    "a": 5,
    "b": {"c": 1, "d": [1, 2]},
    "e": [{"x": 1, "y": 2}, 7, [{"x": 3, "y": 4}]],
}


def project(specification: dict[str, Any], document: dict[str, Any] | None = None) -> dict[str, Any]:
    projection = parse_projection(raw(specification))
    assert projection is not None
    return decoded(projection.apply(raw(document or DOCUMENT)))


def code_of(specification: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        parse_projection(raw(specification))
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
        ({"a": {}}, 51270),
        ({"b.d": {"$elemMatch": {}}}, 31275),
        ({"e": {"$elemMatch": 1}}, 31274),
        ({"e": {"$slice": "x"}}, 28667),
        ({"e": {"$slice": [1, -1]}}, 28724),
        ({"e.$": 1}, Code.NotImplemented),
        ({"a": "$b"}, Code.NotImplemented),
        ({"a": {"$meta": "textScore"}}, Code.NotImplemented),
    ],
)
def test_refusals(specification: dict[str, Any], code: int) -> None:
    assert code_of(specification) == code
