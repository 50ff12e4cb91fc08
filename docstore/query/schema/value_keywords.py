"""The keywords of `$jsonSchema` about single values: bounds of numbers, lengths, patterns, enumerations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_DOWN, Context, Decimal, localcontext

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, BOOL, DECIMAL, DOUBLE, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.path_predicates import Compare
from docstore.query.filter.regex import compile_regex
from docstore.query.value.notation import display
from docstore.query.value.values import (
    LONG_MAX,
    NUMBERS,
    decimal_of,
    double_of,
    int_of,
    integral_of,
    is_true,
    string_value,
    text_of,
)

Test = Callable[[Value], bool]
Fields = Mapping[str, Value]
"""A schema's keywords with their values."""
LeafParser = Callable[[Fields, bool], Test | None]
"""(keywords, whether the schema is about a whole document) -> test."""

text_value = string_value
_EXACT = Context(prec=6200, Emin=-999999, Emax=999999, traps=[])


def wrong_type(keyword: str, wanted: str) -> CommandError:
    return CommandError(Code.TypeMismatch, f"$jsonSchema keyword '{keyword}' must be {wanted}")


def of_objects(holds: Callable[[bytes], bool]) -> Test:
    return lambda value: value[0] != OBJECT or holds(value[1])


def of_arrays(holds: Callable[[list[Value]], bool]) -> Test:
    return lambda value: value[0] != ARRAY or holds(values(value[1]))


def distinct_texts(keyword: str, members: Sequence[Value]) -> Sequence[Value]:
    """The members, which must be strings and each another one."""
    for member in members:
        if member[0] != STRING:
            raise wrong_type(keyword, f"made of strings, but holds {display(member)}")
    if len(set(members)) < len(members):
        raise CommandError(Code.FailedToParse, f"$jsonSchema keyword '{keyword}' holds a value twice")
    return members


def equality_key(value: Value) -> bytes:
    """The same bytes for values that are equal whatever their number types and the order of their fields."""
    return encode_key(_ordered(value))


def _ordered(value: Value) -> Value:
    if value[0] == OBJECT:
        fields = sorted(
            ((name, *_ordered((code, data))) for name, code, data in elements(value[1])), key=lambda f: f[0]
        )
        return OBJECT, document_from(fields)
    if value[0] == ARRAY:
        return ARRAY, array_from([_ordered(member) for member in values(value[1])])
    return value


def _enum(fields: Fields, top: bool) -> Test:
    value = fields["enum"]
    if value[0] != ARRAY:
        raise wrong_type("enum", "an array")
    members = values(value[1])
    if not members:
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'enum' cannot be an empty array")
    allowed = {equality_key(member) for member in members}
    if len(allowed) < len(members):
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'enum' array cannot contain duplicate values.")
    return lambda value: equality_key(value) in allowed


def _bound(keyword: str, exclusive: str, operators: tuple[str, str]) -> LeafParser:
    def parse(fields: Fields, top: bool) -> Test:
        bound = fields[keyword]
        if bound[0] not in NUMBERS:
            raise wrong_type(keyword, "a number")
        strict = fields.get(exclusive)
        if strict is not None and strict[0] != BOOL:
            raise wrong_type(exclusive, "a boolean")
        operator = operators[1 if strict is not None and is_true(strict) else 0]
        matches = Compare("n", operator, bound).matches
        return lambda value: value[0] not in NUMBERS or matches(document_from([("n", *value)]))

    return parse


def _exclusive(keyword: str, bound: str) -> LeafParser:
    def parse(fields: Fields, top: bool) -> None:
        if bound not in fields:
            raise CommandError(
                Code.FailedToParse, f"$jsonSchema keyword '{bound}' must be present if {keyword} is present"
            )

    return parse


def _length(keyword: str, size: Callable[[Value], int | None], wanted: Callable[[int, int], bool]) -> LeafParser:
    """A bound of a size; `size` is None for values that have none."""

    def parse(fields: Fields, top: bool) -> Test:
        bound = _count(keyword, fields[keyword])

        def holds(value: Value) -> bool:
            found = size(value)
            return found is None or wanted(found, bound)

        return holds

    return parse


def _count(keyword: str, value: Value) -> int:
    number = integral_of(value) if value[0] in NUMBERS else None
    if value[0] not in NUMBERS:
        problem = "Expected a number in"
    elif number is None:
        problem = "Expected an integer"
    elif number < 0:
        problem = "Expected a non-negative number in"
    elif number > LONG_MAX:
        problem = "Cannot represent as a 64-bit integer"
    else:
        return number
    raise CommandError(Code.FailedToParse, f"{problem}: {keyword}: {display(value)}")


def _text_size(value: Value) -> int | None:
    return len(text_of(value)) if value[0] == STRING else None


def _array_size(value: Value) -> int | None:
    return len(values(value[1])) if value[0] == ARRAY else None


def _object_size(value: Value) -> int | None:
    return len(elements(value[1])) if value[0] == OBJECT else None


def _pattern(fields: Fields, top: bool) -> Test | None:
    value = fields["pattern"]
    if value[0] != STRING:
        raise wrong_type("pattern", "a string")
    if top:
        return None
    search = compile_regex(text_of(value), "")
    return lambda value: value[0] != STRING or bool(search(text_of(value)))


def _unique_items(fields: Fields, top: bool) -> Test | None:
    value = fields["uniqueItems"]
    if value[0] != BOOL:
        raise wrong_type("uniqueItems", "a boolean")
    if not is_true(value):
        return None

    def unique(value: Value) -> bool:
        if value[0] != ARRAY:
            return True
        members = values(value[1])
        return len({equality_key(member) for member in members}) == len(members)

    return unique


def _multiple_of(fields: Fields, top: bool) -> Test | None:
    value = fields["multipleOf"]
    if value[0] not in NUMBERS:
        raise wrong_type("multipleOf", "a number")
    divisor = _decimal(value)
    if not divisor.is_nan() and divisor <= 0:
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'multipleOf' must have a positive value")
    return lambda value: value[0] not in NUMBERS or _is_multiple(_decimal(value), divisor)


def _decimal(value: Value) -> Decimal:
    """The number as a decimal; a double has 15 digits of it."""
    if value[0] == DECIMAL:
        return decimal_of(value).to_decimal()
    return Decimal(f"{double_of(value):.15g}") if value[0] == DOUBLE else Decimal(int_of(value))


def _is_multiple(number: Decimal, divisor: Decimal) -> bool:
    if not number.is_finite() or divisor.is_nan():
        return False
    if not divisor.is_finite():
        return number.is_zero()
    with localcontext(_EXACT) as context:
        context.rounding = ROUND_DOWN
        return (number % divisor).is_zero()


KEYWORDS: Mapping[str, LeafParser] = {
    "enum": _enum,
    "exclusiveMaximum": _exclusive("exclusiveMaximum", "maximum"),
    "exclusiveMinimum": _exclusive("exclusiveMinimum", "minimum"),
    "maxItems": _length("maxItems", _array_size, lambda size, bound: size <= bound),
    "maxLength": _length("maxLength", _text_size, lambda size, bound: size <= bound),
    "maxProperties": _length("maxProperties", _object_size, lambda size, bound: size <= bound),
    "maximum": _bound("maximum", "exclusiveMaximum", ("lte", "lt")),
    "minItems": _length("minItems", _array_size, lambda size, bound: size >= bound),
    "minLength": _length("minLength", _text_size, lambda size, bound: size >= bound),
    "minProperties": _length("minProperties", _object_size, lambda size, bound: size >= bound),
    "minimum": _bound("minimum", "exclusiveMinimum", ("gte", "gt")),
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "uniqueItems": _unique_items,
}
