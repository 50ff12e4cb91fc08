"""killOp: ask an operation to end; that it is gone already is no error."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    if "op" not in arguments:
        raise CommandError(Code.NoSuchKey, 'Missing expected field "op"')
    context.services.operations.kill(arguments["op"])
    return {"info": "attempting to kill op"}


COMMAND = Command(
    "killOp", run, privilege=Privilege("killop", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("op", Type.INT),), help="end an operation by its id",
)  # fmt: skip
