"""Trigonometric operators: doubles in machine arithmetic, decimals to 34 digits. Null and missing give null."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal

from docstore.aggregation.expressions import decimal_functions as exact
from docstore.aggregation.expressions.model import OperatorParser, Table, is_nullish, stepwise, unary
from docstore.bson.walk import DECIMAL, Value
from docstore.errors import CommandError
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, to_decimal, to_float
from docstore.query.value.notation import display
from docstore.query.value.values import NULL_VALUE, NUMBERS, double_value, type_name

_RADIANS_A_DEGREE = Decimal("0.01745329251994329576923690768488613")
_DEGREES_A_RADIAN = Decimal("57.29577951308232087679815481410517")

_FINITE = (-math.inf, math.inf, "(-inf,inf)")
_UNIT = (-1.0, 1.0, "[-1,1]")
_FROM_ONE = (1.0, math.inf, "[1,inf]")


def _function(
    name: str,
    binary: Callable[[float], float],
    decimal: Callable[[Decimal], Decimal],
    domain: tuple[float, float, str] | None = None,
) -> OperatorParser:
    """Return a function of one number. `domain`: (lower end, upper end, notation); round brackets exclude the ends."""

    def calculate(operand: Value | None) -> Value:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] not in NUMBERS:
            raise CommandError(28765, f"{name} only supports numeric types, not {type_name(operand)}")
        if domain is not None:
            _check_domain(name, operand, domain)
        if operand[0] == DECIMAL:
            return from_decimal(decimal(to_decimal(operand)))
        try:
            return double_value(binary(to_float(operand)))
        except OverflowError:
            return double_value(math.inf if to_float(operand) > 0 or name == "$cosh" else -math.inf)

    return unary(calculate)


def _check_domain(name: str, operand: Value, domain: tuple[float, float, str]) -> None:
    low, high, text = domain
    number = to_decimal(operand) if operand[0] == DECIMAL else Decimal(to_float(operand))
    if number.is_nan():
        return
    outside = number.is_infinite() if domain is _FINITE else not Decimal(low) <= number <= Decimal(high)
    if outside:
        raise CommandError(50989, f"cannot apply {name} to {display(operand)}, value must be in {text}")


def _area_tangent(number: float) -> float:
    return math.copysign(math.inf, number) if abs(number) == 1 else math.atanh(number)


def _atan2(operands: Iterator[Value | None]) -> Value:
    y = next(operands)
    if y is None or is_nullish(y):
        return NULL_VALUE
    if y[0] not in NUMBERS:
        raise CommandError(51044, f"$atan2 only supports numeric types, not {type_name(y)}")
    x = next(operands)
    if x is None or is_nullish(x):
        return NULL_VALUE
    if x[0] not in NUMBERS:
        raise CommandError(51045, f"$atan2 only supports numeric types, not {type_name(x)}")
    if DECIMAL in (y[0], x[0]):
        return from_decimal(exact.arctangent_of(to_decimal(y), to_decimal(x)))
    return double_value(math.atan2(to_float(y), to_float(x)))


OPERATORS: Table = {
    "$acos": _function("$acos", math.acos, exact.arccosine, _UNIT),
    "$acosh": _function("$acosh", math.acosh, exact.area_cosine, _FROM_ONE),
    "$asin": _function("$asin", math.asin, exact.arcsine, _UNIT),
    "$asinh": _function("$asinh", math.asinh, exact.area_sine),
    "$atan": _function("$atan", math.atan, exact.arctangent),
    "$atan2": stepwise(_atan2, 2, 2),
    "$atanh": _function("$atanh", _area_tangent, exact.area_tangent, _UNIT),
    "$cos": _function("$cos", math.cos, exact.cosine, _FINITE),
    "$cosh": _function("$cosh", math.cosh, exact.hyperbolic_cosine),
    "$degreesToRadians": _function(
        "$degreesToRadians",
        lambda number: number * (math.pi / 180),
        lambda number: DECIMAL_CONTEXT.multiply(number, _RADIANS_A_DEGREE),
    ),
    "$radiansToDegrees": _function(
        "$radiansToDegrees",
        lambda number: number * (180 / math.pi),
        lambda number: DECIMAL_CONTEXT.multiply(number, _DEGREES_A_RADIAN),
    ),
    "$sin": _function("$sin", math.sin, exact.sine, _FINITE),
    "$sinh": _function("$sinh", math.sinh, exact.hyperbolic_sine),
    "$tan": _function("$tan", math.tan, exact.tangent, _FINITE),
    "$tanh": _function("$tanh", math.tanh, exact.hyperbolic_tangent),
}
