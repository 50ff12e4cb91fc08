"""Operators on one path: a parser for each, and the table of their names. See `docstore.query.filter.parse`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import takewhile

from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import (
    ARRAY,
    DECIMAL,
    DOUBLE,
    OBJECT,
    REGEX,
    STRING,
    UNDEFINED,
    Value,
    each_value,
    elements,
    values,
)
from docstore.errors import Code, CommandError
from docstore.query.filter.regex import check_regex
from docstore.query.filter.tree import Comparison, Exists, Filter, In, Mod, Not, Op, RegexMatch, Size, TypeIs
from docstore.query.value.notation import display
from docstore.query.value.packed import PackedValues
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    NUMBERS,
    TYPE_CODES,
    TYPE_NAMES,
    decimal_of,
    double_of,
    integral_of,
    is_true,
    regex_of,
    text_of,
    truncated_of,
)

Element = tuple[str, int, bytes]

_LONG = 64 * 1024
"""Bytes from which the values of a list stay encoded."""


def parse_equality(path: str, value: Value) -> Filter:
    """Return an implicit equality; a regular expression becomes a match."""
    if value[0] == REGEX:
        return _regex(path, *regex_of(value))
    _refuse_undefined(value)
    return Comparison(path, Op.EQ, value)


def parse_regex_operator(path: str, fields: Sequence[Element]) -> RegexMatch:
    """Return the condition of `{$regex: ..., $options: ...}`, given all fields of the operator document in
    any order.
    """
    named = {name: (code, data) for name, code, data in fields if name in ("$regex", "$options")}
    if "$regex" not in named:
        raise CommandError(Code.BadValue, "$options needs a $regex")
    options = None
    if sum(name == "$options" for name, _, _ in fields) > 1:
        raise CommandError(51075, "options set in both $regex and $options")
    if "$options" in named:
        if named["$options"][0] != STRING:
            raise CommandError(Code.BadValue, "$options has to be a string")
        options = text_of(named["$options"])
    subject = named["$regex"]
    if subject[0] == REGEX:
        pattern, own = regex_of(subject)
        if own and options is not None:
            raise CommandError(51075, "options set in both $regex and $options")
        return _regex(path, pattern, own if options is None else options)
    if subject[0] != STRING:
        raise CommandError(Code.BadValue, "$regex has to be a string")
    return _regex(path, text_of(subject), options or "")


def _regex(path: str, pattern: str, options: str) -> RegexMatch:
    check_regex(pattern, options)
    return RegexMatch(path, pattern, options)


def _refuse_undefined(value: Value) -> None:
    if value[0] == UNDEFINED:
        raise CommandError(Code.BadValue, "cannot compare to undefined")


def _comparison(op: Op) -> Callable[[str, Value], Filter]:
    def parse(path: str, value: Value) -> Filter:
        _refuse_undefined(value)
        if value[0] == REGEX and op is not Op.EQ:
            raise CommandError(Code.BadValue, f"Can't have RegEx as arg to predicate over field '{path}'.")
        return Comparison(path, op, value)

    return parse


def _parse_ne(path: str, value: Value) -> Filter:
    if value[0] == REGEX:
        raise CommandError(Code.BadValue, "Can't have regex as arg to $ne.")
    _refuse_undefined(value)
    return Not(Comparison(path, Op.EQ, value))


def _parse_in(path: str, value: Value) -> In:
    if value[0] != ARRAY:
        raise CommandError(Code.BadValue, "$in needs an array")
    operands: list[Value] = []
    patterns: list[RegexMatch] = []
    packed = len(value[1]) > _LONG
    for item in each_value(value[1]):
        if item[0] == REGEX:
            if packed:
                packed = False
                operands = list(takewhile(lambda before: before[0] != REGEX, each_value(value[1])))
            patterns.append(_regex(path, *regex_of(item)))
            continue
        if item[0] == OBJECT and _starts_with_dollar(item[1]):
            raise CommandError(Code.BadValue, "cannot nest $ under $in")
        if item[0] == UNDEFINED:
            raise CommandError(Code.BadValue, "InMatchExpression equality cannot be undefined")
        if not packed:
            operands.append(item)
    return In(path, PackedValues(value[1]) if packed else tuple(operands), tuple(patterns))


def _starts_with_dollar(raw: bytes) -> bool:
    names = [name for name, _, _ in elements(raw)]
    return bool(names) and names[0].startswith("$") and not {"$ref", "$id"} <= set(names)


def _parse_nin(path: str, value: Value) -> Filter:
    if value[0] != ARRAY:
        raise CommandError(Code.BadValue, "$nin needs an array")
    return Not(_parse_in(path, value))


def _parse_exists(path: str, value: Value) -> Filter:
    return Exists(path) if is_true(value) else Not(Exists(path))


def _parse_type(path: str, value: Value) -> TypeIs:
    codes: set[int] = set()
    for item in values(value[1]) if value[0] == ARRAY else [value]:
        codes |= type_codes(item)
    if not codes:
        raise CommandError(Code.FailedToParse, f"{path} must match at least one type")
    return TypeIs(path, frozenset(codes))


def type_codes(value: Value) -> frozenset[int]:
    """Return the BSON types that an alias or a number of `$type` names."""
    if value[0] == STRING:
        alias = text_of(value)
        if alias == "number":
            return NUMBERS
        if alias == "missing":
            raise CommandError(
                Code.BadValue,
                "'missing' is not a legal type name. To query for non-existence of a field, use {$exists:false}.",
            )
        if alias not in TYPE_CODES:
            raise CommandError(Code.BadValue, f"Unknown type name alias: {alias}")
        return frozenset((TYPE_CODES[alias],))
    if value[0] not in NUMBERS:
        raise CommandError(Code.TypeMismatch, "type must be represented as a number or a string")
    number = integral_of(value)
    if number == 0:
        raise CommandError(Code.BadValue, "Invalid numerical type code: 0. Instead use {$exists:false}.")
    code = 255 if number == -1 else number
    if code not in TYPE_NAMES or number == 255:
        raise CommandError(Code.BadValue, f"Invalid numerical type code: {display(value)}")
    return frozenset((code,))


def _parse_size(path: str, value: Value) -> Size:
    if value[0] not in NUMBERS:
        raise CommandError(Code.BadValue, f"Failed to parse $size. Expected a number in: $size: {display(value)}")
    length = integral_of(value)
    if length is None:
        raise CommandError(Code.BadValue, f"Failed to parse $size. Expected an integer: $size: {display(value)}")
    if not INT_MIN <= length <= INT_MAX:
        raise CommandError(Code.BadValue, f"Failed to parse $size. Cannot represent $size: {display(value)} in an int")
    if length < 0:
        raise CommandError(
            Code.BadValue, f"Failed to parse $size. Expected a non-negative number in: $size: {display(value)}"
        )
    return Size(path, length)


def _parse_mod(path: str, value: Value) -> Mod:
    if value[0] != ARRAY:
        raise CommandError(Code.BadValue, "malformed mod, needs to be an array")
    items = values(value[1])
    if len(items) != 2:
        raise CommandError(Code.BadValue, f"malformed mod, {'not enough' if len(items) < 2 else 'too many'} elements")
    divisor = _mod_operand("divisor", items[0])
    remainder = _mod_operand("remainder", items[1])
    if divisor == 0:
        raise CommandError(Code.BadValue, "divisor cannot be 0")
    return Mod(path, divisor, remainder)


def _mod_operand(role: str, value: Value) -> int:
    if value[0] not in NUMBERS:
        raise CommandError(Code.BadValue, f"malformed mod, {role} not a number")
    if not _is_finite(value):
        raise CommandError(Code.BadValue, f"malformed mod, {role} value is invalid: NaN or infinite")
    # Unlike elsewhere, a decimal is truncated too.
    number = int(decimal_of(value).to_decimal()) if value[0] == DECIMAL else truncated_of(value)
    assert number is not None
    number = max(LONG_MIN, min(LONG_MAX, number))
    if value[0] in (DOUBLE, DECIMAL) and number in (LONG_MIN, LONG_MAX):
        raise CommandError(Code.BadValue, f"malformed mod, {role} value is invalid: beyond 64 bits")
    return number


def _is_finite(value: Value) -> bool:
    if value[0] == DOUBLE:
        return math.isfinite(double_of(value))
    return value[0] != DECIMAL or decimal_of(value).to_decimal().is_finite()


FIELD_OPERATORS: dict[str, Callable[[str, Value], Filter]] = {
    "$eq": _comparison(Op.EQ),
    "$exists": _parse_exists,
    "$gt": _comparison(Op.GT),
    "$gte": _comparison(Op.GTE),
    "$in": _parse_in,
    "$lt": _comparison(Op.LT),
    "$lte": _comparison(Op.LTE),
    "$mod": _parse_mod,
    "$ne": _parse_ne,
    "$nin": _parse_nin,
    "$size": _parse_size,
    "$type": _parse_type,
}
"""Operators that need only their own value. `$regex`, `$options`, `$not`, `$elemMatch` and `$all` are in
`docstore.query.filter.parse`.
"""
