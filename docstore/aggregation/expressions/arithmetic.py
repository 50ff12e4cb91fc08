"""Arithmetic operators, with the promotions of `docstore.query.value.arithmetic`. A null or missing operand gives
null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from docstore.aggregation.expressions.decimal_functions import (
    common_logarithm,
    exponential,
    logarithm,
    remainder,
    rounded,
)
from docstore.aggregation.expressions.model import (
    OperatorParser,
    Table,
    commutative,
    from_behind,
    is_nullish,
    nary,
    stepwise,
    unary,
)
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import DATE, DECIMAL, DOUBLE, INT32, INT64, Value
from docstore.errors import Code, CommandError
from docstore.query.value import arithmetic
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, to_decimal, to_float, widest
from docstore.query.value.notation import display
from docstore.query.value.summation import Summation
from docstore.query.value.values import (
    INT_MIN,
    NULL_VALUE,
    NUMBERS,
    decimal_of,
    double_of,
    double_value,
    int32_value,
    int64_bytes,
    int64_value,
    int_of,
    integer_value,
    integral_of,
    type_name,
)

Operands = list[Value | None]
Steps = Iterator[Value | None]
_HALF = Fraction(1, 2)
_NAN = Decimal("NaN")


def _add(operands: Steps) -> Value:
    """Return the sum of numbers, and at most one date, to which they are added as milliseconds."""
    numbers: list[Value] = []
    date: int | None = None
    for operand in operands:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] == DATE:
            if date is not None:
                raise CommandError(16612, "only one date allowed in an $add expression")
            date = int_of(operand)
        elif operand[0] in NUMBERS:
            numbers.append(operand)
        else:
            raise CommandError(16554, f"$add only supports numeric or date types, not {type_name(operand)}")
    if date is None:
        integer_sum = _add_integers(numbers)
        if integer_sum is not None:
            return integer_sum
    total = Summation()
    for number in numbers:
        total.add(number)
    return total.result() if date is None else _moved(date, total.result())


def _add_integers(operands: list[Value]) -> Value | None:
    """Return the sum if all operands are integers, the common case; else None."""
    total = 0
    kind = INT32
    for operand in operands:
        if operand[0] not in (INT32, INT64):
            return None
        kind = operand[0] if kind == INT32 else kind
        total += int_of(operand)
    if kind == INT32:
        return integer_value(total)
    return int64_value(total) if LONG_MIN <= total <= LONG_MAX else double_value(float(total))


def _moved(milliseconds: int, offset: Value) -> Value:
    """Return a date plus an offset, once the date is part of the sum.

    Doubles round to the nearest, halves towards zero. A decimal beyond a long gives the minimum date.
    """
    if offset[0] == DOUBLE:
        number = double_of(offset)
        if not math.isfinite(number):
            raise CommandError(Code.Overflow, "date overflow in $add")
        exact = milliseconds + Fraction(number)
        moved = math.ceil(abs(exact) - _HALF) * (-1 if exact < 0 else 1)
    elif offset[0] == DECIMAL:
        return DATE, int64_bytes(_whole_of(DECIMAL_CONTEXT.add(decimal_of(offset).to_decimal(), Decimal(milliseconds))))
    else:
        moved = milliseconds + int_of(offset)
    if not LONG_MIN <= moved <= LONG_MAX:
        raise CommandError(Code.Overflow, "date overflow in $add")
    return DATE, int64_bytes(moved)


def _moved_back(milliseconds: int, offset: Value) -> Value:
    """Return a date minus an offset, which is converted to a long first."""
    duration = coerced_long(offset)
    if duration == LONG_MIN:
        raise CommandError(Code.DurationOverflow, "Cannot negate the minimum duration")
    if not LONG_MIN <= milliseconds - duration <= LONG_MAX:
        raise CommandError(Code.DurationOverflow, f"Overflow while adding {-duration}ms to {milliseconds}ms")
    return DATE, int64_bytes(milliseconds - duration)


def coerced_long(value: Value) -> int:
    """Convert a number to a long: doubles are truncated, decimals rounded. Errors: 31109 for a double out of range."""
    if value[0] == DOUBLE:
        number = double_of(value)
        if not -(2.0**63) <= number < 2.0**63:
            raise CommandError(31109, f"Can't coerce out of range value {display(value)} to long")
        return int(number)
    return _whole_of(decimal_of(value).to_decimal()) if value[0] == DECIMAL else int_of(value)


def _whole_of(number: Decimal) -> int:
    """Return the nearest long, rounding half to even; the minimum long if out of range."""
    if not number.is_finite() or number.adjusted() > 18:
        return LONG_MIN
    integer = int(number.to_integral_value(ROUND_HALF_EVEN))
    return integer if LONG_MIN <= integer <= LONG_MAX else LONG_MIN


def _subtract(operands: Operands) -> Value:
    a, b = operands
    if a is None or b is None or is_nullish(a) or is_nullish(b):
        return NULL_VALUE
    if a[0] in NUMBERS and b[0] in NUMBERS:
        difference = arithmetic.subtract(a, b)
        return double_value(float(int_of(a) - int_of(b))) if difference is None else difference
    if a[0] == DATE and b[0] == DATE:
        return int64_value(int_of(a) - int_of(b))
    if a[0] == DATE and b[0] in NUMBERS:
        return _moved_back(int_of(a), b)
    raise CommandError(Code.TypeMismatch, f"can't $subtract {type_name(b)} from {type_name(a)}")


def _multiply(operands: Steps) -> Value:
    product: Value = int32_value(1)
    for operand in operands:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] not in NUMBERS:
            raise CommandError(Code.TypeMismatch, f"$multiply only supports numeric types, not {type_name(operand)}")
        next_product = arithmetic.multiply(product, operand)
        product = double_value(to_float(product) * to_float(operand)) if next_product is None else next_product
    return product


def _divide(operands: Operands) -> Value:
    a, b = operands
    if a is None or b is None or is_nullish(a) or is_nullish(b):
        return NULL_VALUE
    if a[0] not in NUMBERS or b[0] not in NUMBERS:
        raise CommandError(
            Code.TypeMismatch, f"$divide only supports numeric types, not {type_name(a)} and {type_name(b)}"
        )
    if DECIMAL in (a[0], b[0]):
        divisor = to_decimal(b)
        if divisor.is_zero():
            raise CommandError(Code.BadValue, "can't $divide by zero")
        return from_decimal(DECIMAL_CONTEXT.divide(to_decimal(a), divisor))
    if to_float(b) == 0.0:
        raise CommandError(Code.BadValue, "can't $divide by zero")
    return double_value(to_float(a) / to_float(b))


def _mod(operands: Operands) -> Value:
    a, b = operands
    if a is None or b is None or is_nullish(a) or is_nullish(b):
        return NULL_VALUE
    if a[0] not in NUMBERS or b[0] not in NUMBERS:
        raise CommandError(16611, f"$mod only supports numeric types, not {type_name(a)} and {type_name(b)}")
    kind = widest(a[0], b[0])
    if kind in (INT32, INT64):
        return _mod_integers(kind, int_of(a), int_of(b))
    if kind == DECIMAL:
        divisor = to_decimal(b)
        if divisor.is_zero():
            raise CommandError(5733415, "can't $mod by zero")
        return from_decimal(remainder(to_decimal(a), divisor))
    if to_float(b) == 0.0:
        raise CommandError(16610, "can't $mod by zero")
    integer_divisor = integral_of(b)
    if a[0] in (INT32, INT64) and integer_divisor is not None and abs(integer_divisor) <= LONG_MAX:
        residue = _remainder(int_of(a), integer_divisor)
        return integer_value(residue) if a[0] == INT32 else int64_value(residue)
    number = to_float(a)
    return double_value(math.fmod(number, to_float(b)) if math.isfinite(number) else math.nan)


def _mod_integers(kind: int, number: int, divisor: int) -> Value:
    if divisor == 0:
        raise CommandError(16610, "can't $mod by zero")
    residue = _remainder(number, divisor)
    return int32_value(residue) if kind == INT32 else int64_value(residue)


def _remainder(number: int, divisor: int) -> int:
    """Return the remainder of a truncating division; it has the number's sign."""
    residue = abs(number) % abs(divisor)
    return -residue if number < 0 else residue


def _numeric(name: str, operand: Value) -> None:
    if operand[0] not in NUMBERS:
        raise CommandError(28765, f"{name} only supports numeric types, not {type_name(operand)}")


def _abs(operand: Value | None) -> Value:
    if operand is None or is_nullish(operand):
        return NULL_VALUE
    _numeric("$abs", operand)
    if operand[0] == DOUBLE:
        return double_value(abs(double_of(operand)))
    if operand[0] == DECIMAL:
        return from_decimal(decimal_of(operand).to_decimal().copy_abs())
    number = abs(int_of(operand))
    if number > LONG_MAX:
        raise CommandError(28680, "can't take $abs of long long min")
    return integer_value(number) if operand[0] == INT32 else int64_value(number)


def _to_whole(name: str, binary: Callable[[float], float], rounding: str) -> OperatorParser:
    def calculate(operand: Value | None) -> Value:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        _numeric(name, operand)
        if operand[0] == DOUBLE:
            number = double_of(operand)
            return double_value(binary(number) if math.isfinite(number) else number)
        if operand[0] == DECIMAL:
            exact = decimal_of(operand).to_decimal()
            # A whole number of more than 34 digits cannot be represented exactly: NaN, as in the reference; so is
            # infinity.
            return from_decimal(exact.quantize(Decimal(1), rounding, DECIMAL_CONTEXT) if exact.is_finite() else _NAN)
        return operand

    return unary(calculate)


def _rounding(name: str, rounding: str, binary_rounding: Callable[[float, int], float]) -> OperatorParser:
    """Return `$round` or `$trunc`: to decimal places, or for a negative number to digits before the point."""

    def calculate(operands: Steps) -> Value:
        operand = next(operands)
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] not in NUMBERS:
            raise CommandError(51081, f"{name} only supports numeric types, not {type_name(operand)}")
        scale = next(operands, int32_value(0))
        if scale is None or is_nullish(scale):
            return NULL_VALUE
        digits = _precision(name, scale)
        if operand[0] == DECIMAL:
            exact = decimal_of(operand).to_decimal()
            return from_decimal(_quantized(exact, digits, rounding))
        if operand[0] == DOUBLE:
            number = double_of(operand)
            return double_value(binary_rounding(number, digits) if math.isfinite(number) else number)
        if digits >= 0:
            return operand
        integer = int(_quantized(Decimal(int_of(operand)), digits, rounding))
        if not LONG_MIN <= integer <= LONG_MAX:
            raise CommandError(51080, f"invalid conversion from Decimal128 result in {name} to long")
        if operand[0] == INT32 and integer < INT_MIN:
            # Below the range the reference wraps around; above it the result is a long.
            return int32_value(integer + (1 << 32))
        return integer_value(integer) if operand[0] == INT32 else int64_value(integer)

    return stepwise(calculate, 1, 2)


def _precision(name: str, value: Value) -> int:
    if value[0] not in NUMBERS:
        raise CommandError(16004, f"can't convert from BSON type {type_name(value)} to long")
    exact = to_decimal(value) if value[0] in (DOUBLE, DECIMAL) else Decimal(0)
    if not exact.is_finite() or (value[0] == DOUBLE and not LONG_MIN <= exact <= LONG_MAX):
        raise CommandError(31109, f"Can't coerce out of range value {display(value)} to long")
    digits = integral_of(value)
    if digits is None or not INT_MIN <= digits <= -INT_MIN - 1:
        raise CommandError(51082, f"precision argument to  {name} must be a integral value")
    if not -20 <= digits <= 100:
        raise CommandError(51083, f"cannot apply {name} with precision value {digits} value must be in [-20, 100]")
    return digits


def _quantized(exact: Decimal, digits: int, rounding: str) -> Decimal:
    """Return the number with that number of places; limited to 34 digits."""
    if not exact.is_finite():
        return exact
    decimal = exact.quantize(Decimal(1).scaleb(-digits), rounding, DECIMAL_CONTEXT)
    return rounded(exact) if decimal.is_nan() else decimal


def _round_double(number: float, digits: int) -> float:
    if digits == 0:
        return math.copysign(round(number), number)
    return (
        float(_quantized(Decimal(f"{number:.14e}"), digits, ROUND_HALF_EVEN)) if digits < 0 else round(number, digits)
    )


def _truncate_double(number: float, digits: int) -> float:
    if digits == 0:
        return math.copysign(math.trunc(number), number)
    return float(_quantized(Decimal(repr(number)), digits, ROUND_DOWN))


def _transcendental(
    name: str,
    binary: Callable[[float], float],
    decimal: Callable[[Decimal], Decimal],
    refusal: tuple[int, Callable[[Decimal], bool], str] | None = None,
) -> OperatorParser:
    """Return a function of one number; `refusal`: (code, predicate of the refused numbers, the requirement in the
    message).
    """

    def calculate(operand: Value | None) -> Value:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        _numeric(name, operand)
        exact = to_decimal(operand)
        if refusal is not None and not exact.is_nan() and refusal[1](exact):
            raise CommandError(refusal[0], f"{name}'s argument must be {refusal[2]}")
        if operand[0] == DECIMAL and not (refusal is not None and refusal[1](Decimal(0)) and exact.is_nan()):
            return from_decimal(decimal(exact))
        # The logarithm of a decimal NaN is a double.
        try:
            return double_value(binary(to_float(operand)))
        except OverflowError:
            return double_value(math.inf)

    return unary(calculate)


def _log(operands: Operands) -> Value:
    number, base = operands
    if number is None or base is None or is_nullish(number) or is_nullish(base):
        return NULL_VALUE
    if number[0] not in NUMBERS:
        raise CommandError(28756, f"$log's argument must be numeric, not {type_name(number)}")
    if base[0] not in NUMBERS:
        raise CommandError(28757, f"$log's base must be numeric, not {type_name(base)}")
    logarithm_of, to_base = to_decimal(number), to_decimal(base)
    if not logarithm_of.is_nan() and logarithm_of <= 0:
        raise CommandError(28758, "$log's argument must be a positive number")
    if not to_base.is_nan() and (to_base <= 0 or to_base == 1):
        raise CommandError(28759, "$log's base must be a positive number not equal to 1")
    if DECIMAL in (number[0], base[0]):
        return from_decimal(DECIMAL_CONTEXT.divide(DECIMAL_CONTEXT.ln(logarithm_of), DECIMAL_CONTEXT.ln(to_base)))
    return double_value(math.log(to_float(number)) / math.log(to_float(base)))


def _pow(operands: Operands) -> Value:
    base, exponent = operands
    if base is None or exponent is None or is_nullish(base) or is_nullish(exponent):
        return NULL_VALUE
    if base[0] not in NUMBERS:
        raise CommandError(28762, f"$pow's base must be numeric, not {type_name(base)}")
    if exponent[0] not in NUMBERS:
        raise CommandError(28763, f"$pow's exponent must be numeric, not {type_name(exponent)}")
    power = to_decimal(exponent)
    below = not power.is_nan() and (power.is_signed() if DECIMAL in (base[0], exponent[0]) else power < 0)
    if below and to_decimal(base).is_zero():
        raise CommandError(28764, "$pow cannot take a base of 0 and a negative exponent")
    kind = widest(base[0], exponent[0])
    if kind == DECIMAL:
        return from_decimal(_decimal_power(to_decimal(base), power))
    if kind != DOUBLE and int_of(exponent) >= 0 and (int_of(exponent) < 64 or abs(int_of(base)) <= 1):
        integer_power = int_of(base) ** int_of(exponent)
        if LONG_MIN <= integer_power <= LONG_MAX:
            return integer_value(integer_power) if kind == INT32 else int64_value(integer_power)
    try:
        return double_value(math.pow(to_float(base), to_float(exponent)))
    except OverflowError:
        # The exponent of a negative base is a whole number here.
        below = to_float(base) < 0 and to_float(exponent) % 2 == 1
        return double_value(-math.inf if below else math.inf)
    except ValueError:
        return double_value(math.nan)


def _decimal_power(base: Decimal, power: Decimal) -> Decimal:
    """Return the power with all 34 digits, even of a whole number.
    Zeros, infinities and NaN behave as in C's `pow`, except that no zero has a sign.
    """
    if power.is_zero() or base == 1 or (base == -1 and power.is_infinite()):
        return rounded(Decimal(1))
    if base.is_nan() or power.is_nan():
        return Decimal("NaN")
    if base.is_zero() or base.is_infinite() or power.is_infinite():
        grows = (abs(base) > 1) == (power > 0)
        if not grows:
            return Decimal((0, (0,), -6176))
        # A number with more digits than the precision ends in zeros.
        is_odd = power.is_finite() and power.adjusted() < 34 and power == int(power) and int(power) % 2 == 1
        return Decimal("-Infinity") if base < 0 and is_odd else Decimal("Infinity")
    return rounded(DECIMAL_CONTEXT.power(base, power))


def _square_root(number: float) -> float:
    return math.sqrt(number)


OPERATORS: Table = {
    "$abs": unary(_abs),
    "$add": commutative(_add),
    "$ceil": _to_whole("$ceil", lambda number: math.copysign(math.ceil(number), number), ROUND_CEILING),
    "$divide": from_behind(_divide),
    "$exp": _transcendental("$exp", math.exp, exponential),
    "$floor": _to_whole("$floor", lambda number: math.copysign(math.floor(number), number), ROUND_FLOOR),
    "$ln": _transcendental("$ln", math.log, logarithm, (28766, lambda number: number <= 0, "a positive number")),
    "$log": nary(_log, 2, 2),
    "$log10": _transcendental(
        "$log10", math.log10, common_logarithm, (28761, lambda number: number <= 0, "a positive number")
    ),
    "$mod": nary(_mod, 2, 2),
    "$multiply": commutative(_multiply),
    "$pow": nary(_pow, 2, 2),
    "$round": _rounding("$round", ROUND_HALF_EVEN, _round_double),
    "$sqrt": _transcendental(
        "$sqrt", _square_root, DECIMAL_CONTEXT.sqrt, (28714, lambda number: number < 0, "greater than or equal to 0")
    ),
    "$subtract": from_behind(_subtract),
    "$trunc": _rounding("$trunc", ROUND_DOWN, _truncate_double),
}
