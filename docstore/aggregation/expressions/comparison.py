"""Comparison and boolean operators. Values of all types compare; a missing value sorts before null."""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    argument_list,
    arguments_of,
    folded,
    ordered,
    unary,
)
from docstore.bson.walk import MIN_KEY, Value
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import boolean, int32_value, is_true


def _above_missing(value: Value | None) -> int:
    """Return the comparison of a value with a missing one, which sorts after MinKey and before all others."""
    if value is None:
        return 0
    return -1 if value[0] == MIN_KEY else 1


def _comparison(result: Callable[[int], Value]) -> OperatorParser:
    """Return an operator on the comparison of two values: -1, 0 or 1."""

    def make(ordering: Ordering) -> OperatorParser:
        compare = ordering.compare
        answers = {order: result(order) for order in (-1, 0, 1)}

        def parse(name: str, value: Value, parsing: Parsing) -> Expression:
            arguments = arguments_of(name, value, parsing, 2, 2)
            first, second = (argument.evaluate for argument in arguments)

            def evaluate(scope: Scope) -> Value:
                a, b = first(scope), second(scope)
                if a is None or b is None:
                    return answers[_above_missing(a) - _above_missing(b)]
                return answers[compare(a, b)]

            return folded(evaluate, arguments)

        return parse

    return ordered(make)


def _connective(stop: bool) -> OperatorParser:
    """Return `$and` (stops at the first false operand) or `$or` (at the first true one)."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = [parsing.expression(item) for item in argument_list(value)]
        functions = [argument.evaluate for argument in arguments]

        def evaluate(scope: Scope) -> Value:
            return boolean(stop if any(is_true(function(scope)) is stop for function in functions) else not stop)

        return folded(evaluate, arguments)

    return parse


OPERATORS: Table = {
    "$and": _connective(False),
    "$cmp": _comparison(int32_value),
    "$eq": _comparison(lambda found: boolean(found == 0)),
    "$gt": _comparison(lambda found: boolean(found > 0)),
    "$gte": _comparison(lambda found: boolean(found >= 0)),
    "$lt": _comparison(lambda found: boolean(found < 0)),
    "$lte": _comparison(lambda found: boolean(found <= 0)),
    "$ne": _comparison(lambda found: boolean(found != 0)),
    "$not": unary(lambda operand: boolean(not is_true(operand))),
    "$or": _connective(True),
}
