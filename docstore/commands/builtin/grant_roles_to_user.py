"""grantRolesToUser: there are no users, so it finds none."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    raise CommandError(Code.UserNotFound, f"User '{arguments.value}@{context.db}' not found")


COMMAND = Command(
    "grantRolesToUser",
    run,
    privilege=Privilege("grantRolesToUser", Resource.DATABASE),
    role=Role.PRIMARY,
    value=Type.STRING,
    parameters=(Parameter("roles", Type.ARRAY, required=True),),
    help="finds no user",
)
