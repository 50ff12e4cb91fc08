"""dropUser: there are no users, so it finds none."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    raise CommandError(Code.UserNotFound, f"User '{arguments.value}@{context.db}' not found")


COMMAND = Command(
    "dropUser", run, privilege=Privilege("dropUser", Resource.DATABASE), role=Role.PRIMARY, value=Type.STRING,
    help="finds no user",
)  # fmt: skip
