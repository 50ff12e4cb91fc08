"""What filters mean, and how what is no filter is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bson.int64 import Int64
from bson.regex import Regex

from docstore.aggregation import expression_context
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import And, Comparison, ElemMatchObject, ElemMatchValue, Op
from tests.unit.query.raw import raw, value


def matches(condition: dict[str, Any], document: dict[str, Any]) -> bool:
    return compile_filter(parse_filter(raw(condition))).matches(raw(document))


def code_of(condition: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        parse_filter(raw(condition))
    return refused.value.code


def test_an_empty_filter_matches_everything() -> None:
    assert matches({}, {"a": 1})


def test_operators_on_one_path_form_a_flat_conjunction() -> None:
    tree = parse_filter(raw({"a": {"$gt": 1, "$lt": 5}, "$and": [{"b": 2}]}))

    assert tree == And(
        (
            Comparison("a", Op.GT, value(1)),
            Comparison("a", Op.LT, value(5)),
            Comparison("b", Op.EQ, value(2)),
        )
    )


def test_a_disjunction_of_one_clause_is_that_clause() -> None:
    assert parse_filter(raw({"$or": [{"a": 1}]})) == Comparison("a", Op.EQ, value(1))


def test_elem_match_is_about_values_or_about_documents() -> None:
    assert isinstance(parse_filter(raw({"a": {"$elemMatch": {"$gt": 1}}})), ElemMatchValue)
    assert isinstance(parse_filter(raw({"a": {"$elemMatch": {"b": 1}}})), ElemMatchObject)
    assert isinstance(parse_filter(raw({"a": {"$elemMatch": {"$or": [{"b": 1}]}}})), ElemMatchObject)


@pytest.mark.parametrize(
    ("condition", "document", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": [0, 1]}, True),
        ({"a": [0, 1]}, {"a": [0, 1]}, True),
        ({"a": [0, 1]}, {"a": [[0, 1]]}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": None}, {}, True),
        ({"a.b": None}, {"a": [{"b": 1}, {}]}, True),
        ({"a": {"$ne": 1}}, {"a": [1, 2]}, False),
        ({"a": {"$gt": 1}}, {"a": "x"}, False),
        ({"a": {"$gte": None}}, {}, True),
        ({"a": {"$in": [1, Regex("^x")]}}, {"a": "xy"}, True),
        ({"a": {"$nin": [1, None]}}, {}, False),
        ({"a": Regex("x", "i")}, {"a": "X"}, True),
        ({"a": {"$eq": Regex("x")}}, {"a": "x"}, False),
        ({"a": Regex("x")}, {"a": Regex("x")}, True),
        ({"a": {"$not": Regex("^x")}}, {"a": 1}, True),
        ({"a": {"$options": "i", "$regex": "ABC"}}, {"a": "xabc"}, True),
        ({"a": {"$exists": 0}}, {"b": 1}, True),
        ({"a": {"$type": "number"}}, {"a": Int64(1)}, True),
        ({"a": {"$type": ["string", 10]}}, {"a": None}, True),
        ({"a": {"$size": 2.0}}, {"a": [1, 2]}, True),
        ({"a": {"$all": [1, {"$not": 1}]}}, {"a": [1, {"$not": 1}]}, True),
        ({"a": {"$all": [[1]]}}, {"a": [[1]]}, True),
        ({"a": {"$all": []}}, {"a": []}, False),
        ({"a": {"$all": [{"$elemMatch": {"b": 1}}, {"$elemMatch": {"b": 2}}]}}, {"a": [{"b": 1}, {"b": 2}]}, True),
        ({"a": {"$elemMatch": {"$not": {"$gt": 1}}}}, {"a": [1, 2]}, True),
        ({"a": {"$elemMatch": {"$in": [1]}}}, {"a": [[1]]}, False),
        ({"a": {"$mod": [4, -1]}}, {"a": -5}, True),
        ({"a": {"$mod": [4.9, 1.2]}}, {"a": 5}, True),
        ({"$nor": [{"a": 1}, {"b": 1}]}, {"a": 2}, True),
        ({"a": {"$ref": "x", "$id": 1}}, {"a": {"$ref": "x", "$id": 1}}, True),
        ({"a.$id": 1}, {"a": [{"$ref": "x", "$id": 1}]}, True),
        ({"a": {"$elemMatch": {"$id": 1}}}, {"a": [{"$ref": "x", "$id": 1}]}, True),
        ({"a": {"$elemMatch": {"$db": 1}}}, {"a": [{"$ref": "x", "$id": 1}]}, False),
        ({"$alwaysFalse": 1}, {}, False),
        ({"$comment": 3, "a": 1}, {"a": 1}, True),
        ({"a": {"x": 2, "$gt": 1}}, {"a": {"x": 2, "$gt": 1}}, True),
    ],
)
def test_meaning(condition: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert matches(condition, document) is expected


@pytest.mark.parametrize(
    "condition",
    [
        {"$foo": 1},
        {"a": {"$foo": 1}},
        {"a": {"$gt": 1, "x": 2}},
        {"$and": []},
        {"$and": 1},
        {"$or": [1]},
        {"$not": {"a": 1}},
        {"a": {"$not": 5}},
        {"a": {"$not": {}}},
        {"a": {"$not": {"x": 1}}},
        {"a": {"$in": 1}},
        {"a": {"$in": [{"$gt": 1}]}},
        {"a": {"$type": "nosuch"}},
        {"a": {"$type": 0}},
        {"a": {"$type": 2.5}},
        {"a": {"$size": -1}},
        {"a": {"$size": "2"}},
        {"a": {"$size": 2.5}},
        {"a": {"$size": 2.0**31}},
        {"a": {"$all": "x"}},
        {"a": {"$all": [{"$gt": 1}]}},
        {"a": {"$all": [1, {"$within": 1}]}},
        {"a": {"$all": [{"$elemMatch": {}}, 1]}},
        {"a": {"$elemMatch": 1}},
        {"a": {"$elemMatch": {"$gt": 1, "x": 1}}},
        {"a": {"$mod": [4]}},
        {"a": {"$mod": [0, 1]}},
        {"a": {"$mod": [float("nan"), 1]}},
        {"a": {"$regex": 5}},
        {"a": {"$options": "i"}},
        {"a": {"$gt": Regex("a")}},
        {"a": {"$ne": Regex("a")}},
        {"a": {"$comment": 1}},
        {"a": {"$where": "1"}},
        {"$where": "1"},
    ],
)
def test_malformed_conditions_are_bad_values(condition: dict[str, Any]) -> None:
    assert code_of(condition) == Code.BadValue


def test_refusals_that_have_codes_of_their_own() -> None:
    assert code_of({"a": {"$type": []}}) == Code.FailedToParse
    assert code_of({"a": {"$type": None}}) == Code.TypeMismatch
    assert code_of({"$alwaysTrue": 0}) == Code.FailedToParse
    assert code_of({"a": {"$regex": "["}}) == 51091
    assert code_of({"a": {"$regex": "a" * 32764}}) == 51091
    assert matches({"a": {"$regex": "a" * 32763}}, {"a": "a" * 32763})
    assert code_of({"a": {"$regex": "a", "$options": "q"}}) == 51108
    assert code_of({"a": {"$regex": Regex("a", "i"), "$options": ""}}) == 51075


def test_expressions_are_refused_where_there_are_none() -> None:
    assert code_of({"$expr": True}) == Code.NotImplemented


def test_what_needs_an_index_of_its_own_is_refused_as_without_it() -> None:
    with pytest.raises(CommandError) as refused:
        compile_filter(parse_filter(raw({"$text": {"$search": "x"}}))).matches(raw({"a": "x"}))
    assert refused.value.code == Code.IndexNotFound
    with pytest.raises(CommandError) as refused:
        compile_filter(parse_filter(raw({"a": {"$near": [1, 2]}}))).matches(raw({"a": [1, 2]}))
    assert refused.value.code == Code.NoQueryExecutionPlans


def test_an_empty_last_part_of_a_path_asks_for_the_elements_of_an_array() -> None:
    assert matches({"a.": 1}, {"a": [1, 2]})
    assert matches({"a.": 1}, {"a": {"": 1}})
    assert not matches({"a.": 1}, {"a": 1})


def test_what_is_about_documents_makes_an_elem_match_one_on_documents() -> None:
    assert matches({"a": {"$elemMatch": {"$jsonSchema": {"required": ["k"]}}}}, {"a": [{"k": 1}]})
    assert matches({"a": {"$elemMatch": {"$comment": "x"}}}, {"a": [{}]})
    assert code_of({"a": {"$elemMatch": {"$and": [{"$expr": 1}]}}}) == Code.BadValue
    assert code_of({"a": {"$elemMatch": {"$sampleRate": 1}}}) == Code.BadValue


def test_a_sample_is_drawn_by_the_dice_of_the_language() -> None:
    def drawn(rate: float) -> bool:
        query_context = QueryContext(rng=lambda: 0.3)
        return compile_filter(parse_filter(raw({"$sampleRate": rate}), query_context=query_context)).matches(raw({}))

    assert [drawn(rate) for rate in (0, 0.2, 0.4, 1)] == [False, False, True, True]
    assert [code_of({"$sampleRate": rate}) for rate in (-0.1, 1.5, "x", float("nan"))] == [Code.BadValue] * 4


@pytest.mark.parametrize(
    ("condition", "matched"),
    [
        ({"$expr": {"$add": ["$t", 1]}, "a": 5}, False),
        ({"$and": [{"$expr": {"$add": ["$t", 1]}}, {"$or": [{"a": 5}, {"b": 1}]}]}, False),
        ({"$expr": {"$add": ["$t", 1]}, "a": {"$type": "string"}}, False),
        ({"$or": [{"$expr": {"$add": ["$t", 1]}}, {"a": 1}]}, True),
        ({"$nor": [{"$expr": {"$add": ["$t", 1]}}, {"a": 1}]}, False),
    ],
)
def test_an_expression_is_evaluated_where_nothing_else_decides(condition: dict[str, Any], matched: bool) -> None:
    tree = parse_filter(raw(condition), query_context=expression_context.FULL)
    assert compile_filter(tree).matches(raw({"a": 1, "t": "text"})) is matched
    with pytest.raises(CommandError):
        compile_filter(
            parse_filter(raw({"$expr": {"$add": ["$t", 1]}}), query_context=expression_context.FULL)
        ).matches(raw({"t": "text"}))
