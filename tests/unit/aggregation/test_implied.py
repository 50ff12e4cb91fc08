"""What follows from an `$expr` for indexes, and that nothing is lost by it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex

from docstore.aggregation.expression_context import FULL
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Comparison, DocumentTest, strengthened
from tests.unit.query.raw import raw

VALUES: list[Any] = [
    1, 1.0, Int64(1), Decimal128("1"), 2, float("nan"), "1", "", None, True, {"b": 1}, {"b": [1]}, [], [1], [[1]],
    [{"b": 1}], [None], datetime(2020, 1, 1, tzinfo=UTC), Regex("a"), {"0": 1}, b"1",
]  # fmt: skip
DOCUMENTS = [raw({}), *(raw({"a": value}) for value in VALUES)]


def conditions(expression: Any) -> list[Any]:
    tree = strengthened(parse_filter(raw({"$expr": expression}), query_context=FULL))
    return [child for child in getattr(tree, "children", ()) if not isinstance(child, DocumentTest)]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("path", ["a", "a.b", "a.0"])
@pytest.mark.parametrize("form", ["eq", "turned", "and"])
def test_no_document_of_which_the_expression_is_true_is_lost(value: Any, path: str, form: str) -> None:
    literal = {"$literal": value}
    equality = {"$eq": [f"${path}", literal]}
    forms: dict[str, Any] = {
        "eq": equality,
        "turned": {"$eq": [literal, f"${path}"]},
        "and": {"$and": [True, equality]},
    }
    tree = parse_filter(raw({"$expr": forms[form]}), query_context=FULL)
    plain, stronger = compile_filter(tree), compile_filter(strengthened(tree))
    for document in DOCUMENTS:
        assert plain.matches(document) == stronger.matches(document)


@pytest.mark.parametrize("expression", [{"$eq": ["$a", 5]}, {"$eq": [{"$add": [2, 3]}, "$a"]}, {"$eq": ["$a", "x"]}])
def test_an_equality_with_a_constant_is_a_condition(expression: Any) -> None:
    [found] = conditions(expression)
    assert isinstance(found, Comparison)
    assert found.path == "a"


@pytest.mark.parametrize(
    "expression",
    [
        {"$eq": ["$a", "$b"]},
        {"$eq": ["$a", [1]]},
        {"$eq": ["$$ROOT", 1]},
        {"$eq": [{"$add": ["$a", 1]}, 1]},
        {"$eq": ["$a", {"$getField": "b"}]},
        {"$in": [1, "$a"]},
        {"$in": ["$a", [1]]},
        {"$or": [{"$eq": ["$a", 1]}]},
        {"$not": [{"$eq": ["$a", 1]}]},
        {"$gt": ["$a", 1]},
        "$a",
    ],
)
def test_nothing_follows_from_anything_else(expression: Any) -> None:
    assert conditions(expression) == []
