"""Bounds from an `$expr`: the comparisons of a field with a constant that must all be true.

The comparisons are those of the aggregation language: they compare values of all types with each other, and an array as
a whole. So they bound a field's keys only if no array is on the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docstore.bson.walk import (
    ARRAY,
    MAX_KEY,
    MIN_KEY,
    OBJECT,
    STRING,
    SYMBOL,
    UNDEFINED,
    Value,
    elements,
    values,
)
from docstore.query.filter.tree import DocumentTest, Op
from docstore.query.value.values import text_of

_OPS = {"$eq": Op.EQ, "$lt": Op.LT, "$lte": Op.LTE, "$gt": Op.GT, "$gte": Op.GTE}
_TURNED = {Op.EQ: Op.EQ, Op.LT: Op.GT, Op.LTE: Op.GTE, Op.GT: Op.LT, Op.GTE: Op.LTE}
_TEXTS = frozenset((STRING, SYMBOL))
_NO_CONSTANT = frozenset((ARRAY, OBJECT, UNDEFINED, MIN_KEY, MAX_KEY))


@dataclass(frozen=True, slots=True)
class Computed:
    """A comparison of the value at the path with a constant, by the rules of the aggregation language."""

    path: str
    op: Op
    value: Value


def computed_conditions(test: DocumentTest) -> Iterator[Computed]:
    """Yield the comparisons that the test implies; none with strings if the test has a collation."""
    if test.name == "$expr":
        for comparison in _conjuncts(test.argument):
            if test.collation is None or comparison.value[0] not in _TEXTS:
                yield comparison


def _conjuncts(expression: Value) -> Iterator[Computed]:
    if expression[0] != OBJECT:
        return
    fields = elements(expression[1])
    if len(fields) != 1:
        return
    name, code, data = fields[0]
    if name == "$and" and code == ARRAY:
        for member in values(data):
            yield from _conjuncts(member)
    elif name in _OPS and code == ARRAY:
        operands = values(data)
        if len(operands) == 2:
            comparison = _comparison(_OPS[name], *operands)
            if comparison is not None:
                yield comparison


def _comparison(op: Op, first: Value, second: Value) -> Computed | None:
    path, constant = _path(first), _constant(second)
    if path is None:
        path, constant, op = _path(second), _constant(first), _TURNED[op]
    return None if path is None or constant is None else Computed(path, op, constant)


def _path(operand: Value) -> str | None:
    """Return the path that an operand names; None for variables, except the document itself."""
    if operand[0] != STRING:
        return None
    text = text_of(operand)
    for root in ("$$ROOT.", "$$CURRENT."):
        if text.startswith(root):
            return text[len(root) :]
    return text[1:] if text.startswith("$") and not text.startswith("$$") and len(text) > 1 else None


def _constant(operand: Value) -> Value | None:
    if operand[0] == OBJECT:
        fields = elements(operand[1])
        if len(fields) != 1 or fields[0][0] not in ("$literal", "$const"):
            return None
        operand = (fields[0][1], fields[0][2])
    elif operand[0] == STRING and text_of(operand).startswith("$"):
        return None
    return None if operand[0] in _NO_CONSTANT else operand
