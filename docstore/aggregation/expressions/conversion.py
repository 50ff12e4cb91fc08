"""Types and conversions: `$type`, `$isNumber`, `$convert` and its shorthands `$toInt`, `$toString`, ..."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from docstore.aggregation.expressions.calculations import converted
from docstore.aggregation.expressions.date_parsing import instant_of_text
from docstore.aggregation.expressions.date_text import ISO_FORMAT, format_date
from docstore.aggregation.expressions.model import (
    Expression,
    Named,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    argument_list,
    arguments_of,
    folded,
    is_nullish,
    unary,
)
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import (
    BOOL,
    CODE,
    DATE,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    OBJECT_ID,
    STRING,
    SYMBOL,
    TIMESTAMP,
    Value,
)
from docstore.errors import Code, CommandError
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, to_decimal
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    NULL_VALUE,
    NUMBERS,
    TYPE_CODES,
    TYPE_NAMES,
    boolean,
    decimal_of,
    double_of,
    double_value,
    int32_value,
    int64_bytes,
    int64_value,
    int_of,
    integral_of,
    is_true,
    string_value,
    text_of,
    type_name,
)

_CONVERT = Named(
    Code.FailedToParse,
    Code.FailedToParse,
    {"input": Code.FailedToParse, "to": Code.FailedToParse},
    ("onError", "onNull"),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def failure(reason: str) -> CommandError:
    return CommandError(Code.ConversionFailure, f"{reason} in $convert with no onError value")


def _unsupported(value: Value, target: str) -> CommandError:
    return failure(f"Unsupported conversion from {type_name(value)} to {target}")


def date_text(milliseconds: int) -> str:
    """Return a date as `2020-01-02T03:04:05.678Z`. Errors for years outside of four digits."""
    return format_date(milliseconds, ISO_FORMAT)


def double_text(number: float) -> str:
    """Return a double with six significant digits, as MongoDB 6.0 prints it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return f"{number:g}"


def number_text(value: Value) -> str:
    if value[0] == DOUBLE:
        return double_text(double_of(value))
    if value[0] == DECIMAL:
        return str(decimal_of(value))
    return str(int_of(value))


def coerce_to_text(value: Value | None) -> str:
    """Convert a value to text for string operators; null and missing become empty. Errors: 16007."""
    if value is None or is_nullish(value):
        return ""
    code = value[0]
    if code in (STRING, SYMBOL, CODE):
        return text_of(value)
    if code == DOUBLE:
        return f"{double_of(value):g}"
    if code in NUMBERS:
        return number_text(value)
    if code == DATE:
        return date_text(int_of(value))
    if code == TIMESTAMP:
        packed = int_of(value) & 0xFFFFFFFFFFFFFFFF
        when = datetime.fromtimestamp(packed >> 32, UTC)
        return f"{_MONTHS[when.month - 1]} {when.day:2} {when:%H:%M:%S}:{packed & 0xFFFFFFFF}"
    raise CommandError(16007, f"can't convert from BSON type {type_name(value)} to String")


def _to_double(value: Value) -> Value:
    code = value[0]
    if code == STRING:
        return double_value(_parse_double(text_of(value)))
    if code == BOOL:
        return double_value(float(is_true(value)))
    if code == DECIMAL:
        exact = decimal_of(value).to_decimal()
        number = float(exact)
        if exact.is_finite() and not exact.is_zero() and not _is_normal(number):
            raise failure("Conversion would overflow target type")
        return double_value(number)
    if code == DOUBLE:
        return value
    if code in (INT32, INT64, DATE):
        return double_value(float(int_of(value)))
    raise _unsupported(value, "double")


def _is_normal(number: float) -> bool:
    """True if the double is normal: not infinite, zero or subnormal."""
    return sys.float_info.min <= abs(number) <= sys.float_info.max


_DOUBLE_TEXT = re.compile(
    r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_INTEGER_TEXT = re.compile(r"[+-]?\d+")
_MOST_DIGITS = 20
"""Digits that an integer of 64 bits may have, and one more."""


def _parse_double(text: str) -> float:
    if not _DOUBLE_TEXT.fullmatch(text):
        raise failure(f"Failed to parse number '{text}'")
    number = float(text)
    if re.search("[1-9]", re.split("[eE]", text)[0]) and not _is_normal(number):
        raise failure(f"Failed to parse number '{text}': out of range")
    return number


def _to_integer(lowest: int, highest: int, code: int, name: str) -> Callable[[Value], Value]:
    make = int32_value if code == INT32 else int64_value

    def convert(value: Value) -> Value:
        kind = value[0]
        if kind == STRING:
            number = _parse_integer(text_of(value))
        elif kind == BOOL:
            number = int(is_true(value))
        elif kind in (DOUBLE, DECIMAL):
            number = _cut(value)
        elif kind in (INT32, INT64) or (kind == DATE and code == INT64):
            number = int_of(value)
        else:
            raise _unsupported(value, name)
        if not lowest <= number <= highest:
            raise failure("Conversion would overflow target type")
        return make(number)

    return convert


def _cut(value: Value) -> int:
    """Return a double or decimal, truncated."""
    exact = to_decimal(value) if value[0] == DECIMAL else Decimal(double_of(value))
    if exact.is_nan():
        raise failure("Attempt to convert NaN value to integer type")
    if exact.is_infinite():
        raise failure("Attempt to convert infinity value to integer type")
    if not exact:
        return 0  # for any exponent
    return int(exact) if exact.adjusted() < 30 else (LONG_MAX + 1 if exact > 0 else LONG_MIN - 1)


def _parse_integer(text: str) -> int:
    if not _INTEGER_TEXT.fullmatch(text):
        raise failure(f"Failed to parse number '{text}'")
    digits = text.lstrip("+-0")
    # Python refuses to read thousands of digits; so many are beyond any integer.
    number = int(digits or "0") if len(digits) <= _MOST_DIGITS else 2 * LONG_MAX
    return -number if text.startswith("-") else number


def _to_decimal(value: Value) -> Value:
    code = value[0]
    if code == STRING:
        text = text_of(value)
        try:
            if not text or text != text.strip() or "_" in text:
                raise InvalidOperation
            return from_decimal(DECIMAL_CONTEXT.plus(Decimal(text)))
        except InvalidOperation:
            raise failure(f"Failed to parse number '{text}'") from None
    if code == BOOL:
        return from_decimal(Decimal(int(is_true(value))))
    if code in NUMBERS or code == DATE:
        return value if code == DECIMAL else from_decimal(to_decimal(value))
    raise _unsupported(value, "decimal")


def _to_text(value: Value) -> Value:
    code = value[0]
    if code == BOOL:
        return string_value("true" if is_true(value) else "false")
    if code == OBJECT_ID:
        return string_value(value[1].hex())
    if code == STRING:
        return value
    if code in NUMBERS:
        return string_value(number_text(value))
    if code == DATE:
        return string_value(date_text(int_of(value)))
    raise _unsupported(value, "string")


def _to_bool(value: Value) -> Value:
    return boolean(is_true(value))


def _to_date(value: Value) -> Value:
    code = value[0]
    if code == STRING:
        return DATE, int64_bytes(instant_of_text(text_of(value)))
    if code in (DOUBLE, DECIMAL):
        number = _cut(value)
        if not LONG_MIN <= number <= LONG_MAX:
            raise failure("Conversion would overflow target type")
        return DATE, int64_bytes(number)
    if code in (INT64, DATE):
        return DATE, value[1]
    if code == OBJECT_ID:
        return DATE, int64_bytes(int.from_bytes(value[1][:4], "big", signed=True) * 1000)
    if code == TIMESTAMP:
        return DATE, int64_bytes(((int_of(value) & 0xFFFFFFFFFFFFFFFF) >> 32) * 1000)
    raise _unsupported(value, "date")


def _to_object_id(value: Value) -> Value:
    if value[0] == OBJECT_ID:
        return value
    if value[0] != STRING:
        raise _unsupported(value, "objectId")
    text = text_of(value)
    if not re.fullmatch(r"[0-9a-fA-F]{24}", text):
        raise failure(f"Failed to parse objectId '{text}'")
    return OBJECT_ID, bytes.fromhex(text)


_CONVERSIONS: dict[int, Callable[[Value], Value]] = {
    BOOL: _to_bool,
    DATE: _to_date,
    DECIMAL: _to_decimal,
    DOUBLE: _to_double,
    INT32: _to_integer(INT_MIN, INT_MAX, INT32, "int"),
    INT64: _to_integer(LONG_MIN, LONG_MAX, INT64, "long"),
    OBJECT_ID: _to_object_id,
    STRING: _to_text,
}


def _shorthand(code: int) -> OperatorParser:
    convert = _CONVERSIONS[code]
    parse_one = unary(lambda operand: NULL_VALUE if operand is None or is_nullish(operand) else convert(operand))

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = argument_list(value)
        if len(arguments) != 1:
            for item in arguments:
                parsing.expression(item)
            raise CommandError(50723, f"{name} requires a single argument, got {len(arguments)}")
        return parse_one(name, value, parsing)

    return parse


def _target(value: Value) -> int:
    """Return the type code of a `$convert`'s `to`."""
    if value[0] == STRING:
        name = text_of(value)
        if name not in TYPE_CODES:
            raise CommandError(Code.BadValue, f"Unknown type name: {name}")
        return TYPE_CODES[name]
    code = integral_of(value) if value[0] in NUMBERS else None
    if code is None or code not in TYPE_NAMES:
        raise CommandError(
            Code.FailedToParse, f"$convert's 'to' argument must be a string or number, but is {type_name(value)}"
        )
    return code


def _parse_convert(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = {parameter: parsing.expression(item) for parameter, item in _CONVERT.parameters(name, value).items()}
    functions = {parameter: expression.evaluate for parameter, expression in arguments.items()}

    def evaluate(scope: Scope) -> Value | None:
        target = functions["to"](scope)
        operand = functions["input"](scope)
        # An invalid type is an error for null too.
        code = None if target is None or is_nullish(target) else _target(target)
        if operand is None or is_nullish(operand):
            return functions["onNull"](scope) if "onNull" in functions else NULL_VALUE
        if code is None:
            return NULL_VALUE
        try:
            if code not in _CONVERSIONS:
                raise _unsupported(operand, TYPE_NAMES[code])
            return _CONVERSIONS[code](operand)
        except CommandError as error:
            if error.code != Code.ConversionFailure or "onError" not in functions:
                raise
            return functions["onError"](scope)

    operation = folded(evaluate, list(arguments.values()))
    code = _known_target(arguments["to"].constant)
    if operation.is_constant or code is None or "onNull" in arguments:
        return operation
    return converted(replace(parsing.scoped(operation), arguments=(arguments["input"],)), code)


def _known_target(value: Value | None) -> int | None:
    """Return the type code of a constant; None if it is not constant, or invalid."""
    try:
        return None if value is None or is_nullish(value) else _target(value)
    except CommandError:
        return None


def _parse_type(name: str, value: Value, parsing: Parsing) -> Expression:
    (argument,) = arguments_of(name, value, parsing, 1, 1)
    evaluate = argument.evaluate
    return folded(lambda scope: string_value(type_name(evaluate(scope))), [argument])


OPERATORS: Table = {
    "$convert": _parse_convert,
    "$isNumber": unary(lambda operand: boolean(operand is not None and operand[0] in NUMBERS)),
    "$toBool": _shorthand(BOOL),
    "$toDate": _shorthand(DATE),
    "$toDecimal": _shorthand(DECIMAL),
    "$toDouble": _shorthand(DOUBLE),
    "$toInt": _shorthand(INT32),
    "$toLong": _shorthand(INT64),
    "$toObjectId": _shorthand(OBJECT_ID),
    "$toString": _shorthand(STRING),
    "$type": _parse_type,
}
