"""Filters implied by an `$expr`, so that indexes can serve it.

- An implied filter is weaker: documents that satisfy the expression satisfy the filter. The expression is still
  evaluated.
- It covers equalities of a path and a document-independent value, at the top or below `$and`.
- Filters also match values inside arrays, which expressions do not, so no match is lost. Values with another meaning in
  filters (arrays, regular expressions, undefined) are skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.expressions.dependencies import fields_of
from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, REGEX, STRING, UNDEFINED, Value, elements, values
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.tree import Comparison, Filter, Op
from docstore.query.value.collation import holds_strings
from docstore.query.value.values import text_of

_MEANING_MORE = (ARRAY, REGEX, UNDEFINED)

_NOWHERE = Scope(EMPTY_DOCUMENT)

Implied = Callable[[], tuple[Filter, ...]]
"""Returns the filters, with the current values of the variables."""


def implied_by(value: Value, query_context: QueryContext) -> Implied | None:
    """Return the filters implied by an expression that parses without error; None if there are none."""
    equalities = _equalities(value, query_context)
    if not equalities:
        return None
    return lambda: tuple(condition for equality in equalities if (condition := equality()) is not None)


def _equalities(value: Value, query_context: QueryContext) -> list[Callable[[], Filter | None]]:
    code, data = value
    fields = elements(data) if code == OBJECT else []
    if len(fields) != 1 or fields[0][1] != ARRAY:
        return []
    name, _, raw = fields[0]
    operands = values(raw)
    if name == "$and":
        return [equality for operand in operands for equality in _equalities(operand, query_context)]
    if len(operands) != 2 or name != "$eq":
        return []
    for path, other in (operands, operands[::-1]):
        if _is_path(path) and fields_of(other) == set():
            return [
                _equal(text_of(path)[1:], parse_expression(other, query_context=query_context).evaluate, query_context)
            ]
    return []


def _is_path(value: Value) -> bool:
    return value[0] == STRING and text_of(value).startswith("$") and not text_of(value).startswith("$$")


def _equal(path: str, evaluate: Evaluate, query_context: QueryContext) -> Callable[[], Filter | None]:
    def condition() -> Filter | None:
        value = _evaluated(evaluate)
        if value is None or value[0] in _MEANING_MORE:
            return None
        return Comparison(path, Op.EQ, value, query_context.collation if holds_strings(value) else None)

    return condition


def _evaluated(evaluate: Evaluate) -> Value | None:
    try:
        return evaluate(_NOWHERE)
    except CommandError:
        # The expression raises the error itself when it is evaluated.
        return None
