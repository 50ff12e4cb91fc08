"""The language of a request: variables of `let` and of the system, wherever expressions may stand."""

from __future__ import annotations

import bson
import pytest

from docstore.aggregation import expression_context
from docstore.aggregation.parse import parse_pipeline
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.parse import parse_projection


def let(**variables: object) -> QueryContext:
    return expression_context.with_let(expression_context.new_context(), bson.encode(variables))


def matches(condition: dict[str, object], document: dict[str, object], query_context: QueryContext) -> bool:
    return compile_filter(parse_filter(bson.encode(condition), query_context=query_context)).matches(
        bson.encode(document)
    )


def refusal(query_context: dict[str, object]) -> int:
    with pytest.raises(CommandError) as caught:
        let(**query_context)
    return caught.value.code


def test_a_variable_of_let_is_its_value_in_a_filter() -> None:
    condition = {"$expr": {"$eq": ["$a", "$$x"]}}
    assert matches(condition, {"a": 1}, let(x=1))
    assert not matches(condition, {"a": 2}, let(x=1))


def test_a_variable_may_use_those_before_it() -> None:
    assert matches({"$expr": {"$eq": ["$a", "$$y"]}}, {"a": 3}, let(x=1, y={"$add": ["$$x", 2]}))


def test_let_cannot_read_a_field() -> None:
    assert [refusal({"x": value}) for value in ("$a", "$$ROOT", "$$CURRENT.a")] == [4890500] * 3


def test_names_of_variables_follow_the_rules() -> None:
    assert [refusal({name: 1}) for name in ("X", "a.b", "", "NOW", "ROOT")] == [9, 9, 9, 4738901, 4738901]


def test_an_undefined_variable_is_refused_while_parsing() -> None:
    with pytest.raises(CommandError) as caught:
        matches({"$expr": "$$y"}, {}, let(x=1))
    assert caught.value.code == 17276


def test_a_projection_computes_with_variables() -> None:
    projection = parse_projection(bson.encode({"z": "$$x.b"}), query_context=let(x={"b": 4}))
    assert projection is not None
    assert bson.decode(projection.apply(bson.encode({"_id": 1, "a": 2}))) == {"_id": 1, "z": 4}


def test_a_pipeline_knows_the_variables_of_its_command() -> None:
    pipeline = parse_pipeline([bson.encode({"$match": {"$expr": {"$gt": ["$a", "$$x"]}}})], query_context=let(x=1))
    assert len(pipeline.stages) == 1


def test_constants_of_an_update_are_values_not_expressions() -> None:
    query_context = expression_context.with_constants(expression_context.new_context(), bson.encode({"c": "$a"}))
    assert matches({"$expr": {"$eq": ["$$c", {"$literal": "$a"}]}}, {"a": 1}, query_context)
