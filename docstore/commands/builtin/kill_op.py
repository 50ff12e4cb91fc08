"""killOp: ask an operation to end; that it is gone already is no error."""

from __future__ import annotations

from docstore.bson import get_field
from docstore.bson.walk import Value
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import NUMBERS, number_of, type_name
from docstore.errors import Code, CommandError


def run(context: Context, _arguments: Arguments) -> Result:
    context.services.operations.kill(_id(get_field(context.raw, "op")))
    return {"info": "attempting to kill op"}


def _id(value: Value | None) -> int:
    """The id of an operation. Errors: NoSuchKey, TypeMismatch, BadValue, Location26823."""
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


COMMAND = Command(
    "killOp", run, privilege=Privilege("killop", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("op", Type.ANY),), help="end an operation by its id",
)  # fmt: skip
