"""Operators that calculate: `$inc`, `$mul`, `$bit`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from docstore.bson.order import compare
from docstore.bson.walk import INT32, INT64, OBJECT, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.update.modifier import Blocked, Situation
from docstore.query.value.arithmetic import ZERO, add, multiply, to_float
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, int32_value, int64_value, int_of, type_name


@dataclass(frozen=True, slots=True)
class Increase:
    """`$inc` and `$mul`. A missing value counts as an int zero; a long that overflows is an error.

    If the result equals the current number of its type, that stays unchanged. NaN equals nothing.
    """

    operator: str
    operand: Value
    combine: Callable[[Value, Value], Value | None]
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if current is None:
            return self.operand if self.operator == "$inc" else self.combine(ZERO, self.operand)
        if current[0] not in NUMBERS:
            raise CommandError(
                Code.TypeMismatch,
                f"Cannot apply {self.operator} to a value of non-numeric type. {situation.identity()} has the field"
                f" '{path.rsplit('.', 1)[-1]}' of non-numeric type {type_name(current)}",
            )
        result = self.combine(current, self.operand)
        if result is None:
            raise CommandError(
                Code.BadValue,
                f"Failed to apply {self.operator} operations to current value ({display(current)}) for document"
                f" {situation.identity()}",
            )
        if math.isnan(to_float(result)):
            situation.modified = True
            return result
        return current if result[0] == current[0] and compare(result, current) == 0 else result


def parse_inc(path: str, value: Value) -> Increase:
    if value[0] not in NUMBERS:
        raise CommandError(
            Code.TypeMismatch, f"Cannot increment with non-numeric argument: {{{path}: {display(value)}}}"
        )
    return Increase("$inc", value, add)


def parse_mul(path: str, value: Value) -> Increase:
    if value[0] not in NUMBERS:
        raise CommandError(
            Code.TypeMismatch, f"Cannot multiply with non-numeric argument: {{{path}: {display(value)}}}"
        )
    return Increase("$mul", value, multiply)


_BITWISE: dict[str, Callable[[int, int], int]] = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}


@dataclass(frozen=True, slots=True)
class Bit:
    """`$bit`: its operations in order. A missing value counts as an int zero; the wider of the two types is kept."""

    operations: tuple[tuple[str, Value], ...]
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        value = int32_value(0) if current is None else current
        if value[0] not in (INT32, INT64):
            raise CommandError(
                Code.BadValue,
                f"Cannot apply $bit to a value of non-integral type. {situation.identity()} has the field"
                f" {path.rsplit('.', 1)[-1]} of non-integer type {type_name(value)}",
            )
        for name, operand in self.operations:
            wide = INT64 in (value[0], operand[0])
            result = _BITWISE[name](int_of(value), int_of(operand))
            value = int64_value(result) if wide else int32_value(result)
        return value


def parse_bit(value: Value) -> Bit:
    """Parse `{and | or | xor: <integer>, ...}`."""
    if value[0] != OBJECT:
        raise CommandError(
            Code.BadValue,
            f"The $bit modifier is not compatible with a {type_name(value)}. You must pass in an embedded document:"
            " {$bit: {field: {and/or/xor: #}}",
        )
    operations: list[tuple[str, Value]] = []
    for name, code, data in elements(value[1]):
        if name not in _BITWISE:
            raise CommandError(Code.BadValue, f"The $bit modifier only supports 'and', 'or', and 'xor', not '{name}'")
        if code not in (INT32, INT64):
            raise CommandError(
                Code.BadValue,
                f"The $bit modifier field must be an Integer(32/64 bit); a '{type_name((code, data))}' is not"
                " supported here",
            )
        operations.append((name, (code, data)))
    if not operations:
        raise CommandError(
            Code.BadValue,
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        )
    return Bit(tuple(operations))
