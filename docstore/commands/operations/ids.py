"""Operation ids, as killOp accepts them."""

from __future__ import annotations

from docstore.bson.walk import Value
from docstore.commands.values import NUMBERS, number_of, type_name
from docstore.errors import Code, CommandError


def operation_id(value: Value | None) -> int:
    """Return the id of an operation. Errors: NoSuchKey, TypeMismatch, BadValue, Location26823."""
    if value is None:
        raise CommandError(Code.NoSuchKey, 'Missing expected field "op"')
    if value[0] not in NUMBERS:
        raise CommandError(Code.TypeMismatch, f'Expected field "op" to have a number, but found {type_name(value[0])}')
    number = number_of(*value)
    if not isinstance(number, int):
        if not number.is_integer() or abs(number) >= 2**63:
            raise CommandError(Code.BadValue, 'Expected field "op" to have a value exactly representable as an integer')
        number = int(number)
    if not -(2**31) <= number < 2**31:
        raise CommandError(26823, f"invalid op : {number}. Op ID cannot be represented with 32 bits")
    return number
