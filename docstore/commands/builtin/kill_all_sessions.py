"""killAllSessions: end the operations and cursors of every session. Without users there is nobody to choose by name."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.sessions.lists import kill
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    if arguments.value:
        raise CommandError(Code.UserNotFound, "Could not find the user: there are none")
    kill(context, set())
    return {}


COMMAND = Command(
    "killAllSessions", run, privilege=Privilege("killAnySession", Resource.CLUSTER), role=Role.ANY,
    value=Type.DOCUMENTS, help="end what runs in any session",
)  # fmt: skip
