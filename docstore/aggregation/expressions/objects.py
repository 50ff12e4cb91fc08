"""`$mergeObjects`, and the accumulators that are expressions too: `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`,
`$stdDevSamp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from docstore.aggregation.accumulators.accumulators import Accumulator, state_of
from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Table,
    argument_list,
    commutative,
    is_nullish,
    nary,
    ordered,
    stepwise,
)
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.errors import CommandError
from docstore.query.value.notation import display
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import type_name

Operands = list[Value | None]


def _parse_merge(name: str, value: Value, parsing: Parsing) -> Expression:
    """Parse `$mergeObjects`; a single array argument stands for its elements."""
    parse = nary(_merge_only) if len(argument_list(value)) == 1 else stepwise(_merge_objects)
    return parse(name, value, parsing)


def _merge_only(operands: Operands) -> Value:
    (only,) = operands
    return _merge_objects(values(only[1]) if only is not None and only[0] == ARRAY else operands)


def _merge_objects(operands: Iterable[Value | None]) -> Value:
    fields: dict[str, Value] = {}
    for operand in operands:
        if operand is None or is_nullish(operand):
            continue
        if operand[0] != OBJECT:
            raise CommandError(
                40400,
                f"$mergeObjects requires object inputs, but input {display(operand)} is of type {type_name(operand)}",
            )
        for name, code, data in elements(operand[1]):
            fields[name] = (code, data)
    return OBJECT, document_from((name, *value) for name, value in fields.items())


def _accumulated(name: str) -> OperatorParser:
    """Return the accumulator over the arguments, or over the elements of a single array argument."""

    def calculate(start: Callable[[], Accumulator], operands: Iterable[Value | None]) -> Value:
        members = list(operands)
        if len(members) == 1 and members[0] is not None and members[0][0] == ARRAY:
            members = list(values(members[0][1]))
        state = start()
        for operand in members:
            state.add(operand)
        return state.result()

    def make(ordering: Ordering) -> OperatorParser:
        function = partial(calculate, state_of(name, ordering))
        return nary(function) if name in _UNORDERED_ONLY else commutative(function)

    return ordered(make)


_UNORDERED_ONLY = ("$avg", "$stdDevPop", "$stdDevSamp")
"""Accumulators that cannot be computed from partial results."""

OPERATORS: Table = {
    "$mergeObjects": _parse_merge,
    **{name: _accumulated(name) for name in ("$avg", "$max", "$min", "$stdDevPop", "$stdDevSamp", "$sum")},
}
