"""Declaration of commands that MongoDB has and a process of this project lacks.

Such a command is parsed and authorized as if it were served, and then refused: an unauthorized user learns nothing
else, and nobody takes it for a misspelt name.
"""

from __future__ import annotations

from typing import NoReturn

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Role, Type
from docstore.errors import Code, CommandError


def unsupported(
    name: str,
    privilege: Privilege,
    reason: str,
    *required: str,
    admin_only: bool = False,
    value: Type = Type.ANY,
    user_first: bool = False,
) -> Command:
    """Return a command that refuses every request (CommandNotSupported, with the reason).

    `required`: fields without which the request is malformed. `value`: the type of the field named like the command.
    `user_first`: as in `Spec`.
    """
    return Command(
        name,
        _refuse,
        privilege=privilege,
        role=Role.ANY,
        admin_only=admin_only,
        value=value,
        parameters=tuple(Parameter(field, Type.ANY, required=True) for field in required),
        tolerant=True,
        write_concern=True,
        refuses=reason,
        user_first=user_first,
    )


def _refuse(context: Context, _arguments: Arguments) -> NoReturn:
    raise CommandError(Code.CommandNotSupported, context.command.refuses)
