"""Parsing of the bit operators: masks as numbers, as binary data and as arrays of positions."""

from __future__ import annotations

from collections.abc import Callable

from docstore.bson.limits import LONG_MAX
from docstore.bson.walk import ARRAY, BINARY, Value, values
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import Bits, Filter
from docstore.query.value.notation import display
from docstore.query.value.values import INT_MAX, NUMBERS, integral_of


def _parser(name: str, every: bool, ones: bool) -> Callable[[str, Value], Filter]:
    return lambda path, value: Bits(path, bit_positions(name, path, value), every, ones)


def bit_positions(name: str, path: str, value: Value) -> frozenset[int]:
    """Return the positions that a mask names. Errors: FailedToParse for a number that is not a mask, BadValue for all
    else.
    """
    if value[0] in NUMBERS:
        return _ones_of(_number(name, value).to_bytes(8, "little"))
    if value[0] == BINARY:
        return _ones_of(value[1][5:])
    if value[0] == ARRAY:
        return frozenset(_position(str(index), item) for index, item in enumerate(values(value[1])))
    raise CommandError(
        Code.BadValue, f"{path} takes an Array, a number, or a BinData but received: {name}: {display(value)}"
    )


def _number(name: str, value: Value) -> int:
    number = integral_of(value)
    if number is None:
        raise CommandError(Code.FailedToParse, f"Expected an integer: {name}: {display(value)}")
    if number < 0:
        raise CommandError(Code.FailedToParse, f"Expected a non-negative number in: {name}: {display(value)}")
    if number > LONG_MAX:
        raise CommandError(Code.FailedToParse, f"Cannot represent as a 64-bit integer: {name}: {display(value)}")
    return number


def _position(index: str, value: Value) -> int:
    if value[0] not in NUMBERS:
        problem = "Expected a number in"
    elif (number := integral_of(value)) is None:
        problem = "Expected an integer"
    elif number < 0:
        problem = "Expected a non-negative number in"
    elif number > INT_MAX:
        problem = "Cannot represent in an int"
    else:
        return number
    raise CommandError(Code.BadValue, f"Failed to parse bit position. {problem}: {index}: {display(value)}")


def _ones_of(mask: bytes) -> frozenset[int]:
    return frozenset(8 * index + bit for index, byte in enumerate(mask) if byte for bit in range(8) if byte >> bit & 1)


BIT_OPERATORS: dict[str, Callable[[str, Value], Filter]] = {
    "$bitsAllClear": _parser("$bitsAllClear", every=True, ones=False),
    "$bitsAllSet": _parser("$bitsAllSet", every=True, ones=True),
    "$bitsAnyClear": _parser("$bitsAnyClear", every=False, ones=False),
    "$bitsAnySet": _parser("$bitsAnySet", every=False, ones=True),
}
