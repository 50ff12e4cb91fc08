"""Comparison and boolean operators. Values of all types compare; a missing value is less than null."""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    argument_list,
    folded,
    nary,
    unary,
)
from docstore.bson.order import compare
from docstore.bson.walk import Value
from docstore.query.values import boolean, int32_value, is_true


def order(a: Value | None, b: Value | None) -> int:
    """-1, 0 or 1; a missing value sorts before every other but MinKey's class rules do not apply to it."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    return compare(a, b)


def _comparison(holds: Callable[[int], bool]) -> OperatorParser:
    return nary(lambda operands: boolean(holds(order(operands[0], operands[1]))), 2, 2)


def _connective(stop: bool) -> OperatorParser:
    """`$and` (stops at the first false operand) and `$or` (at the first true one)."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = [parsing.expression(item) for item in argument_list(value)]
        functions = [argument.evaluate for argument in arguments]

        def evaluate(scope: Scope) -> Value:
            return boolean(stop if any(is_true(function(scope)) is stop for function in functions) else not stop)

        return folded(evaluate, arguments)

    return parse


OPERATORS: Table = {
    "$and": _connective(False),
    "$cmp": nary(lambda operands: int32_value(order(operands[0], operands[1])), 2, 2),
    "$eq": _comparison(lambda found: found == 0),
    "$gt": _comparison(lambda found: found > 0),
    "$gte": _comparison(lambda found: found >= 0),
    "$lt": _comparison(lambda found: found < 0),
    "$lte": _comparison(lambda found: found <= 0),
    "$ne": _comparison(lambda found: found != 0),
    "$not": unary(lambda operand: boolean(not is_true(operand))),
    "$or": _connective(True),
}
