"""`$percentile` and `$median`: their parameters, and the expressions, which are exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.aggregation.expressions.model import Expression, Parsing, Scope, Table, folded
from docstore.bson.build import array_value
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.value.arithmetic import to_float
from docstore.query.value.notation import display
from docstore.query.value.quantiles import rank_of
from docstore.query.value.values import NULL_VALUE, NUMBERS, double_value, text_of

_NO_OBJECT = {"$percentile": 7429703, "$median": 7436100}
_FIELDS = {"$percentile": ("input", "p", "method"), "$median": ("input", "method")}
QUANTILES = frozenset(_FIELDS)


@dataclass(frozen=True, slots=True)
class QuantileParameters:
    """The parameters. `fractions`: from 0 to 1; `single`: the result is one number, not an array."""

    source: Expression
    fractions: tuple[float, ...]
    single: bool

    def of_sorted(self, numbers: Sequence[float]) -> Value:
        """Return the result over sorted numbers."""
        if not numbers:
            return self.to_value(None)
        return self.to_value([numbers[rank_of(fraction, len(numbers))] for fraction in self.fractions])

    def to_value(self, numbers: Sequence[float] | None) -> Value:
        """Return the quantiles as a value; None: there are no numbers."""
        quantiles = (
            [NULL_VALUE] * len(self.fractions) if numbers is None else [double_value(quantile) for quantile in numbers]
        )
        return quantiles[0] if self.single else array_value(quantiles)


def number_of(value: Value | None) -> float | None:
    """Return a value as a number; None if it is ignored."""
    if value is None or value[0] not in NUMBERS:
        return None
    number = to_float(value)
    return None if math.isnan(number) else number


def parse_asked(name: str, value: Value, parsing: Parsing) -> QuantileParameters:
    """Parse the argument of either. Errors: Location40414, Location40415, TypeMismatch, BadValue for the method."""
    if value[0] != OBJECT:
        raise CommandError(_NO_OBJECT[name], f"specification must be an object; found {name}: {display(value)}")
    arguments: dict[str, Value] = {}
    for field, code, data in elements(value[1]):
        if field not in _FIELDS[name]:
            raise CommandError(40415, f"BSON field '{name}.{field}' is an unknown field.")
        arguments[field] = (code, data)
    for field in _FIELDS[name]:
        if field not in arguments:
            raise CommandError(40414, f"BSON field '{name}.{field}' is missing but a required field")
    method = arguments["method"]
    if method[0] != STRING:
        raise CommandError(Code.TypeMismatch, f"BSON field '{name}.method' must be a string, found {display(method)}")
    if text_of(method) != "approximate":
        raise CommandError(Code.BadValue, f"Currently only 'approximate' can be used as the 'method' of {name}")
    fractions = (0.5,) if name == "$median" else _fractions(parsing.expression(arguments["p"]))
    return QuantileParameters(parsing.expression(arguments["input"]), fractions, name == "$median")


def _fractions(expression: Expression) -> tuple[float, ...]:
    value = expression.constant
    if not expression.is_constant or value is None:
        raise CommandError(7750300, "The $percentile 'p' field must be an array of constant values")
    members = values(value[1]) if value[0] == ARRAY else []
    if not members:
        raise CommandError(7750301, f"The $percentile 'p' field must be an array with numbers, but is {display(value)}")
    for member in members:
        if member[0] not in NUMBERS:
            raise CommandError(
                7750302, f"The $percentile 'p' field must be an array of numbers, but has {display(member)}"
            )
        if not 0 <= to_float(member) <= 1:
            raise CommandError(
                7750303, f"The $percentile 'p' field must have numbers from 0.0 to 1.0, but has {display(member)}"
            )
    return tuple(map(to_float, members))


def _parse(name: str, value: Value, parsing: Parsing) -> Expression:
    specification = parse_asked(name, value, parsing)
    source = specification.source.evaluate

    def evaluate(scope: Scope) -> Value:
        """Return the result over the elements of an array, or over one number."""
        operand = source(scope)
        members: list[Value | None] = (
            list(values(operand[1])) if operand is not None and operand[0] == ARRAY else [operand]
        )
        numbers = (number_of(member) for member in members)
        return specification.of_sorted(sorted(number for number in numbers if number is not None))

    return folded(evaluate, [specification.source])


OPERATORS: Table = dict.fromkeys(_FIELDS, _parse)
