"""Expressions compiled to functions of a document."""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.expressions.calculations import source_of
from docstore.aggregation.expressions.parse import is_operator, parse_expression
from docstore.bson.walk import OBJECT, Value, elements
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.projection.projection import Compute
from docstore.query.value.values import is_true


def compile_test(value: Value, query_context: QueryContext) -> Callable[[bytes], bool]:
    """Return an `$expr` as a predicate of documents."""
    compute = source_of(parse_expression(value, query_context=query_context))
    return lambda document: is_true(compute(document))


def compile_value(value: Value, query_context: QueryContext) -> Compute:
    """Return an expression as a function of documents."""
    return source_of(parse_expression(value, query_context=query_context))


def compile_field(value: Value, query_context: QueryContext) -> Compute:
    """Return a computed field of a projection, which has its own error code for an unknown operator."""
    if value[0] == OBJECT:
        names = [name for name, _, _ in elements(value[1])]
        if len(names) == 1 and names[0].startswith("$") and not is_operator(names[0]):
            raise CommandError(31325, f"Unknown expression {names[0]}")
    return compile_value(value, query_context)
