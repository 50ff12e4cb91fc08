"""Parsing of the bit operators: masks as numbers, as binary data and as arrays of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from docstore.bson.allowance import spend
from docstore.bson.limits import LONG_MAX
from docstore.bson.walk import ARRAY, BINARY, Value, each_value
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import Bits, Filter
from docstore.query.value.notation import display
from docstore.query.value.values import INT_MAX, NUMBERS, integral_of

_PER_POSITION = 128
"""Units of work charged for a member of an array, and for the memory that it takes."""


def _parser(name: str, every: bool, ones: bool) -> Callable[[str, Value], Filter]:
    return lambda path, value: Bits(path, *_mask_of(name, path, value), every, ones)


def _mask_of(name: str, path: str, value: Value) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """Return a mask as `Bits` has it. Errors: FailedToParse for a number that is not a mask, BadValue for all else."""
    if value[0] in NUMBERS:
        return _number(name, value).to_bytes(8, "little"), ()
    if value[0] == BINARY:
        return value[1][5:], ()
    if value[0] == ARRAY:
        mask: dict[int, int] = {}
        for index, item in enumerate(each_value(value[1])):
            position = _position(str(index), item)
            mask[position >> 3] = mask.get(position >> 3, 0) | 1 << (position & 7)
            spend(_PER_POSITION)
        return b"", tuple(sorted(mask.items()))
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


def bit_positions(mask: bytes, sparse: Iterable[tuple[int, int]]) -> list[int]:
    """Return the positions of the bits of a mask, in order."""
    masked_bytes = chain(enumerate(mask), sparse)
    return [8 * index + bit for index, byte in masked_bytes if byte for bit in range(8) if byte >> bit & 1]


BIT_OPERATORS: dict[str, Callable[[str, Value], Filter]] = {
    "$bitsAllClear": _parser("$bitsAllClear", every=True, ones=False),
    "$bitsAllSet": _parser("$bitsAllSet", every=True, ones=True),
    "$bitsAnyClear": _parser("$bitsAnyClear", every=False, ones=False),
    "$bitsAnySet": _parser("$bitsAnySet", every=False, ones=True),
}
