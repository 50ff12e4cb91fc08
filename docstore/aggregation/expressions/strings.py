"""String operators. `CP` counts code points, `Bytes` bytes of UTF-8; case is changed for ASCII letters only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docstore.aggregation.expressions.arithmetic import coerced_long
from docstore.aggregation.expressions.conversion import coerce_to_text
from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    folded,
    is_nullish,
    nary,
    stepwise,
    unary,
)
from docstore.aggregation.limits import MAX_REPLACED_BYTES
from docstore.bson.build import array_value
from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import CommandError
from docstore.kernel.limits import MAX_RESULT_BYTES
from docstore.query.value.notation import display
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    NULL_VALUE,
    NUMBERS,
    int32_bytes,
    int32_value,
    integral_of,
    string_value,
    text_of,
    type_name,
)

Operands = list[Value | None]

_SPLIT_AT_ONCE = 64 * 1024

_WHITESPACE = "\0\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"


def _concat(operands: Iterator[Value | None]) -> Value:
    parts: list[bytes] = []
    for operand in operands:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] != STRING:
            raise CommandError(16702, f"$concat only supports strings, not {type_name(operand)}")
        parts.append(operand[1][4:-1])
    size = sum(map(len, parts))
    if size > MAX_RESULT_BYTES:
        raise CommandError(16493, "Tried to create string longer than 16MB")
    return STRING, b"".join((int32_bytes(size + 1), *parts, b"\0"))


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}


def _case(table: dict[int, int]) -> OperatorParser:
    return unary(lambda operand: string_value(coerce_to_text(operand).translate(table)))


def _strcasecmp(operands: Operands) -> Value:
    a, b = (coerce_to_text(operand).translate(_UPPER).encode() for operand in operands)
    return int32_value((a > b) - (a < b))


def _substring_code_points(operands: Operands) -> Value:
    text = coerce_to_text(operands[0])
    start = _position(operands[1], "$substrCP", "starting index", 34450, 34451)
    length = _position(operands[2], "$substrCP", "length", 34452, 34453)
    if length < 0:
        raise CommandError(34454, "$substrCP: length must be a nonnegative integer.")
    if start < 0:
        raise CommandError(34455, "$substrCP: the starting index must be nonnegative integer.")
    return string_value(text[start : start + length])


def _position(value: Value | None, name: str, role: str, not_number: int, not_whole: int) -> int:
    if value is None or value[0] not in NUMBERS:
        raise CommandError(not_number, f"{name}: {role} must be a numeric type (is BSON type {type_name(value)})")
    number = integral_of(value)
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise CommandError(
            not_whole, f"{name}: {role} cannot be represented as a 32-bit integral value: {display(value)}"
        )
    return number


def _substring_bytes(operands: Operands) -> Value:
    encoded = coerce_to_text(operands[0]).encode()
    start, length = operands[1], operands[2]
    if start is None or start[0] not in NUMBERS:
        raise CommandError(16034, f"$substrBytes: starting index must be a numeric type (is {type_name(start)})")
    if length is None or length[0] not in NUMBERS:
        raise CommandError(16035, f"$substrBytes: length must be a numeric type (is {type_name(length)})")
    first, count = coerced_long(start), coerced_long(length)
    if first < 0:
        raise CommandError(50752, f"$substrBytes: starting index must be non-negative (got: {first})")
    end = len(encoded) if count < 0 else min(len(encoded), first + count)
    if first < len(encoded) and _continues(encoded[first]):
        raise CommandError(28656, "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.")
    if end < len(encoded) and end > first and _continues(encoded[end]):
        raise CommandError(28657, "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.")
    return string_value(encoded[first:end].decode())


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _length(name: str, code: int, measure: Callable[[str], int]) -> OperatorParser:
    def calculate(operand: Value | None) -> Value:
        if operand is None or operand[0] != STRING:
            raise CommandError(code, f"{name} requires a string argument, found: {type_name(operand)}")
        return int32_value(measure(text_of(operand)))

    return unary(calculate)


def _split(operands: Operands) -> Value:
    text, separator = operands
    if text is None or separator is None or is_nullish(text) or is_nullish(separator):
        return NULL_VALUE
    for value, code, role in ((text, 40085, "first"), (separator, 40086, "second")):
        if value[0] != STRING:
            raise CommandError(
                code,
                f"$split requires an expression that evaluates to a string as a {role} argument, found:"
                f" {type_name(value)}",
            )
    if not text_of(separator):
        raise CommandError(40087, "$split requires a non-empty separator")
    return array_value(map(string_value, _parts(text_of(text), text_of(separator))))


def _parts(text: str, separator: str) -> Iterator[str]:
    """Yield the parts between separators, without materializing those of a long text."""
    if len(text) <= _SPLIT_AT_ONCE:
        yield from text.split(separator)
        return
    at, end = 0, text.find(separator)
    while end >= 0:
        yield text[at:end]
        at = end + len(separator)
        end = text.find(separator, at)
    yield text[at:]


def _index_of(name: str, code: int, encode: Callable[[str], str | bytes]) -> OperatorParser:
    """Return `$indexOfCP` or `$indexOfBytes`: -1 if there is no occurrence in [start, end)."""

    def calculate(operands: Iterator[Value | None]) -> Value:
        text = next(operands)
        if text is None or is_nullish(text):
            return NULL_VALUE
        if text[0] != STRING:
            raise CommandError(code, f"{name} requires a string as the first argument, found: {type_name(text)}")
        token = next(operands)
        if token is None or token[0] != STRING:
            raise CommandError(code + 1, f"{name} requires a string as the second argument, found: {type_name(token)}")
        subject, sought = encode(text_of(text)), encode(text_of(token))
        bounds = [_index_bound(name, value) for value in operands]
        start = bounds[0] if bounds else 0
        end = bounds[1] if len(bounds) > 1 else len(subject)
        if start > len(subject) or end < start:
            return int32_value(-1)
        if isinstance(subject, bytes) and isinstance(sought, bytes):
            return int32_value(subject.find(sought, start, end))
        assert isinstance(subject, str)
        assert isinstance(sought, str)
        return int32_value(subject.find(sought, start, end))

    return stepwise(calculate, 2, 4)


def _index_bound(name: str, value: Value | None) -> int:
    number = None if value is None or value[0] not in NUMBERS else integral_of(value)
    if number is None:
        raise CommandError(40096, f"{name} requires an integral position, found a value of type: {type_name(value)}")
    if number < 0:
        raise CommandError(40097, f"{name} requires a nonnegative position, found: {number}")
    return number


def _trim(trims_left: bool, trims_right: bool) -> OperatorParser:
    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        if value[0] != OBJECT:
            raise CommandError(50696, f"{name} only supports an object as an argument, found {type_name(value)}")
        arguments: dict[str, Expression] = {}
        for parameter, code, data in elements(value[1]):
            if parameter not in ("input", "chars"):
                raise CommandError(50694, f"{name} found an unknown argument: {parameter}")
            arguments[parameter] = parsing.expression((code, data))
        if "input" not in arguments:
            raise CommandError(50695, f"{name} requires an 'input' field")
        subject = arguments["input"].evaluate
        chars = arguments["chars"].evaluate if "chars" in arguments else None

        def evaluate(scope: Scope) -> Value:
            operand = subject(scope)
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            if operand[0] != STRING:
                raise CommandError(
                    50699, f"{name} requires its input to be a string, got {type_name(operand)} instead."
                )
            letters = _WHITESPACE
            if chars is not None:
                characters = chars(scope)
                if characters is None or is_nullish(characters):
                    return NULL_VALUE
                if characters[0] != STRING:
                    raise CommandError(50700, f"{name} requires 'chars' to be a string, got {type_name(characters)}")
                letters = text_of(characters)
            text = text_of(operand)
            text = text.lstrip(letters) if trims_left and letters else text
            return string_value(text.rstrip(letters) if trims_right and letters else text)

        return folded(evaluate, list(arguments.values()))

    return parse


def _replace(name: str, count: int) -> OperatorParser:
    def parse(_: str, value: Value, parsing: Parsing) -> Expression:
        if value[0] != OBJECT:
            raise CommandError(51751, f"{name} requires an object as an argument, found: {type_name(value)}")
        arguments: dict[str, Expression] = {}
        for parameter, code, data in elements(value[1]):
            if parameter not in ("input", "find", "replacement"):
                raise CommandError(51750, f"{name} found an unknown argument: {parameter}")
            arguments[parameter] = parsing.expression((code, data))
        for parameter, code in (("input", 51749), ("find", 51748), ("replacement", 51747)):
            if parameter not in arguments:
                raise CommandError(code, f"{name} requires that '{parameter}' is specified")
        functions = [arguments[parameter].evaluate for parameter in ("input", "find", "replacement")]

        def evaluate(scope: Scope) -> Value:
            texts: list[str | None] = []
            for function, parameter, code in zip(
                functions, ("input", "find", "replacement"), (51746, 51745, 51744), strict=True
            ):
                operand = function(scope)
                if operand is None or is_nullish(operand):
                    texts.append(None)
                elif operand[0] != STRING:
                    raise CommandError(
                        code, f"{name} requires that '{parameter}' be a string, found: {display(operand)}"
                    )
                else:
                    texts.append(text_of(operand))
            text, sought, replacement = texts
            if text is None or sought is None or replacement is None:
                return NULL_VALUE
            times = text.count(sought) if count < 0 else 1
            size = len(text) + times * (len(replacement) - len(sought))
            if size > MAX_REPLACED_BYTES:
                raise CommandError(13548, f"BufBuilder attempted to grow() to {size} bytes, past the 64MB limit.")
            return string_value(text.replace(sought, replacement, count))

        return folded(evaluate, [arguments[parameter] for parameter in ("input", "find", "replacement")])

    return parse


OPERATORS: Table = {
    "$concat": stepwise(_concat),
    "$indexOfBytes": _index_of("$indexOfBytes", 40091, str.encode),
    "$indexOfCP": _index_of("$indexOfCP", 40093, str),
    "$ltrim": _trim(True, False),
    "$replaceAll": _replace("$replaceAll", -1),
    "$replaceOne": _replace("$replaceOne", 1),
    "$rtrim": _trim(False, True),
    "$split": nary(_split, 2, 2),
    "$strLenBytes": _length("$strLenBytes", 34473, lambda text: len(text.encode())),
    "$strLenCP": _length("$strLenCP", 34471, len),
    "$strcasecmp": nary(_strcasecmp, 2, 2),
    "$substr": nary(_substring_bytes, 3, 3),
    "$substrBytes": nary(_substring_bytes, 3, 3),
    "$substrCP": nary(_substring_code_points, 3, 3),
    "$toLower": _case(_LOWER),
    "$toUpper": _case(_UPPER),
    "$trim": _trim(True, True),
}
