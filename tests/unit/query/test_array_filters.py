"""`$[]`, `$[id]` and the filters of their identifiers."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code, CommandError
from docstore.query.update.parse import parse_update
from tests.unit.query.raw import decoded, raw


def updated(document: dict[str, Any], specification: dict[str, Any], *filters: dict[str, Any]) -> dict[str, Any]:
    update = parse_update(raw(specification), [raw(each) for each in filters])
    return decoded(update.apply(raw(document), matched_index=None, now=0, timestamp=0))


def refusal(document: dict[str, Any], specification: dict[str, Any], *filters: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        updated(document, specification, *filters)
    return refused.value.code


def test_all_elements_are_changed() -> None:
    assert updated({"a": [1, 2]}, {"$inc": {"a.$[]": 10}}) == {"a": [11, 12]}
    assert updated({"a": [[1], [2]]}, {"$push": {"a.$[]": 0}}) == {"a": [[1, 0], [2, 0]]}


def test_the_elements_that_a_filter_chooses_are_changed() -> None:
    assert updated({"a": [1, 2, 3]}, {"$set": {"a.$[e]": 0}}, {"e": {"$gt": 1}}) == {"a": [1, 0, 0]}
    document = {"a": [{"k": 1}, {"k": 2}]}
    assert updated(document, {"$set": {"a.$[e].v": 0}}, {"e.k": 2}) == {"a": [{"k": 1}, {"k": 2, "v": 0}]}


def test_an_identifier_may_stand_twice_in_a_path() -> None:
    assert updated({"m": [[1, 2], [3, 4]]}, {"$set": {"m.$[e].$[e]": 9}}, {"e": {"$gt": 2}}) == {"m": [[1, 2], [9, 9]]}


def test_a_removed_element_becomes_null() -> None:
    assert updated({"a": [1, 2]}, {"$unset": {"a.$[e]": 1}}, {"e": 2}) == {"a": [1, None]}


def test_changes_of_one_element_by_several_selectors_are_one_change() -> None:
    changed = updated({"a": [{"x": 1}]}, {"$set": {"a.$[].y": 1}, "$inc": {"a.$[e].x": 2}}, {"e.x": 1})
    assert changed == {"a": [{"x": 3, "y": 1}]}
    assert refusal({"a": [1]}, {"$set": {"a.$[e]": 1, "a.$[f]": 2}}, {"e": 1}, {"f": 1}) == 40
    assert updated({"a": [3]}, {"$set": {"a.$[e]": 1, "a.$[f]": 2}}, {"e": 1}, {"f": 1}) == {"a": [3]}


def test_selectors_and_names_do_not_mix_at_one_place() -> None:
    assert refusal({"a": [1]}, {"$set": {"a.$[]": 1, "a.0": 2}}) == Code.ConflictingUpdateOperators


def test_only_arrays_have_elements_to_select() -> None:
    assert refusal({"a": 5}, {"$set": {"a.$[]": 1}}) == Code.BadValue
    assert refusal({}, {"$set": {"a.$[]": 1}}) == Code.BadValue
    assert refusal({"s": 5}, {"$set": {"s.x.$[]": 1}}) == Code.BadValue


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ([], Code.BadValue),
        ([{"e": 1}, {"f": 1}], Code.FailedToParse),
        ([{"e": 1}, {"e": 2}], Code.FailedToParse),
        ([{"e": 1, "f": 1}], Code.FailedToParse),
        ([{}], Code.FailedToParse),
        ([{"E": 1}], Code.BadValue),
        ([{"$expr": True}], Code.QueryFeatureNotAllowed),
        ([{"$where": "1"}], Code.BadValue),
        ([{"e": {"$near": [1, 1]}}], 5626500),
    ],
)
def test_every_identifier_has_one_filter_of_one_name(filters: list[dict[str, Any]], code: int) -> None:
    assert refusal({"a": [1]}, {"$set": {"a.$[e]": 1}}, *filters) == code
