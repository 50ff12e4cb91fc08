"""Expressions where the query language admits them: `$expr` in filters, computed fields in projections."""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import is_operator, parse_expression
from docstore.bson.walk import OBJECT, Value, elements
from docstore.errors import CommandError
from docstore.query.projection import Compute
from docstore.query.values import is_true


def compile_test(value: Value) -> Callable[[bytes], bool]:
    """The test of an `$expr`: whether the expression is true of a document. For `docstore.query.filter`."""
    evaluate = parse_expression(value).evaluate
    return lambda document: is_true(evaluate(Scope(document)))


def compile_field(value: Value) -> Compute:
    """A computed field. For `docstore.query.projection_parse`."""
    if value[0] == OBJECT:
        names = [name for name, _, _ in elements(value[1])]
        if len(names) == 1 and names[0].startswith("$") and not is_operator(names[0]):
            raise CommandError(31325, f"Unknown expression {names[0]}")
    evaluate = parse_expression(value).evaluate
    return lambda document: evaluate(Scope(document))
