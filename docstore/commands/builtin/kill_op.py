"""killOp: ask an operation to end; that it is gone already is no error."""

from __future__ import annotations

from docstore.bson import get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.operations.ids import operation_id


def run(context: Context, _arguments: Arguments) -> Result:
    context.services.operations.kill(operation_id(get_field(context.raw, "op")))
    return {"info": "attempting to kill op"}


COMMAND = Command(
    "killOp", run, privilege=Privilege("killop", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("op", Type.ANY),), help="end an operation by its id",
)  # fmt: skip
