"""The keywords of `$jsonSchema` about single values: bounds of numbers, lengths, patterns, enumerations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_DOWN, Context, Decimal, localcontext

from docstore.bson.build import array_from, document_from
from docstore.bson.limits import LONG_MAX
from docstore.bson.walk import ARRAY, BOOL, DECIMAL, DOUBLE, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.path_predicates import Compare, ValueCall
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.match.schema_predicates import Among, Different, Length, Listed
from docstore.query.filter.regex import compile_regex
from docstore.query.value.notation import display
from docstore.query.value.values import (
    NUMBERS,
    decimal_of,
    double_of,
    int_of,
    integral_of,
    is_true,
    string_value,
    text_of,
)

Fields = Mapping[str, Value]
"""A schema's keywords with their values."""
LeafParser = Callable[[Fields, bool], Predicate | None]
"""(keywords, whether the schema is about a whole document) -> predicate of values."""

text_value = string_value
OBJECTS = frozenset((OBJECT,))
_STRINGS = frozenset((STRING,))
_NUMBERS = frozenset(NUMBERS)
_EXACT = Context(prec=6200, Emin=-999999, Emax=999999, traps=[])


def wrong_type(keyword: str, expected: str) -> CommandError:
    return CommandError(Code.TypeMismatch, f"$jsonSchema keyword '{keyword}' must be {expected}")


def distinct_texts(keyword: str, members: Sequence[Value]) -> Sequence[Value]:
    """Return the members, which must be distinct strings."""
    for member in members:
        if member[0] != STRING:
            raise wrong_type(keyword, f"made of strings, but holds {display(member)}")
    if len(set(members)) < len(members):
        raise CommandError(Code.FailedToParse, f"$jsonSchema keyword '{keyword}' holds a value twice")
    return members


def equality_key(value: Value) -> bytes:
    """Return a key that ignores number types and the order of fields: equal values have the same."""
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


def _enum(fields: Fields, top: bool) -> Predicate:
    value = fields["enum"]
    if value[0] != ARRAY:
        raise wrong_type("enum", "an array")
    members = values(value[1])
    if not members:
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'enum' cannot be an empty array")
    allowed = {equality_key(member) for member in members}
    if len(allowed) < len(members):
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'enum' array cannot contain duplicate values.")
    return Listed(equality_key, allowed)


def _bound(keyword: str, exclusive: str, operators: tuple[str, str]) -> LeafParser:
    def parse(fields: Fields, top: bool) -> Predicate:
        bound = fields[keyword]
        if bound[0] not in NUMBERS:
            raise wrong_type(keyword, "a number")
        strict = fields.get(exclusive)
        if strict is not None and strict[0] != BOOL:
            raise wrong_type(exclusive, "a boolean")
        operator = operators[1 if strict is not None and is_true(strict) else 0]
        return Among(_NUMBERS, Compare("", operator, bound))

    return parse


def _exclusive(keyword: str, bound: str) -> LeafParser:
    def parse(fields: Fields, top: bool) -> None:
        if bound not in fields:
            raise CommandError(
                Code.FailedToParse, f"$jsonSchema keyword '{bound}' must be present if {keyword} is present"
            )

    return parse


def _length(keyword: str, code: int, *, at_most: bool) -> LeafParser:
    """Return the parser of a bound on the length of a type's values."""

    def parse(fields: Fields, top: bool) -> Predicate:
        return Length(code, _count(keyword, fields[keyword]), at_most)

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


def _pattern(fields: Fields, top: bool) -> Predicate | None:
    value = fields["pattern"]
    if value[0] != STRING:
        raise wrong_type("pattern", "a string")
    if top:
        return None
    search = compile_regex(text_of(value), "")
    return Among(_STRINGS, ValueCall("", lambda value: bool(search(text_of(value)))))


def _unique_items(fields: Fields, top: bool) -> Predicate | None:
    value = fields["uniqueItems"]
    if value[0] != BOOL:
        raise wrong_type("uniqueItems", "a boolean")
    return Different(equality_key) if is_true(value) else None


def _multiple_of(fields: Fields, top: bool) -> Predicate | None:
    value = fields["multipleOf"]
    if value[0] not in NUMBERS:
        raise wrong_type("multipleOf", "a number")
    divisor = _decimal(value)
    if not divisor.is_nan() and divisor <= 0:
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'multipleOf' must have a positive value")
    return Among(_NUMBERS, ValueCall("", lambda value: _is_multiple(_decimal(value), divisor)))


def _decimal(value: Value) -> Decimal:
    """Return the number as a decimal; a double is rounded to 15 digits."""
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
    "maxItems": _length("maxItems", ARRAY, at_most=True),
    "maxLength": _length("maxLength", STRING, at_most=True),
    "maxProperties": _length("maxProperties", OBJECT, at_most=True),
    "maximum": _bound("maximum", "exclusiveMaximum", ("lte", "lt")),
    "minItems": _length("minItems", ARRAY, at_most=False),
    "minLength": _length("minLength", STRING, at_most=False),
    "minProperties": _length("minProperties", OBJECT, at_most=False),
    "minimum": _bound("minimum", "exclusiveMinimum", ("gte", "gt")),
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "uniqueItems": _unique_items,
}
