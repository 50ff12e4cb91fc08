"""`$mergeObjects`, and the accumulators that are expressions too: `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`,
`$stdDevSamp`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docstore.aggregation.accumulators.accumulators import Accumulator, state_of
from docstore.aggregation.expressions.model import OperatorParser, Table, commutative, is_nullish, nary, ordered
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.errors import CommandError
from docstore.query.value.notation import display
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import type_name

Operands = list[Value | None]


def _merge_objects(operands: Operands) -> Value:
    """Of one array argument, its elements are merged."""
    given = operands
    if len(operands) == 1 and operands[0] is not None and operands[0][0] == ARRAY:
        given = list(values(operands[0][1]))
    fields: dict[str, Value] = {}
    for operand in given:
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
    """The accumulator over the arguments, or over the elements when the one argument is an array."""

    def calculate(start: Callable[[], Accumulator], operands: Operands) -> Value:
        given = operands
        if len(operands) == 1 and operands[0] is not None and operands[0][0] == ARRAY:
            given = list(values(operands[0][1]))
        state = start()
        for operand in given:
            state.add(operand)
        return state.result()

    def make(ordering: Ordering) -> OperatorParser:
        function = partial(calculate, state_of(name, ordering))
        return nary(function) if name in _UNORDERED_ONLY else commutative(function)

    return ordered(make)


_UNORDERED_ONLY = ("$avg", "$stdDevPop", "$stdDevSamp")
"""What cannot be calculated from the results of its parts."""

OPERATORS: Table = {
    "$mergeObjects": nary(_merge_objects),
    **{name: _accumulated(name) for name in ("$avg", "$max", "$min", "$stdDevPop", "$stdDevSamp", "$sum")},
}
