"""killSessions: end the operations and cursors of the named sessions; of all sessions when none is named."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role, Type
from docstore.commands.sessions.lists import kill, lsids_of


def run(context: Context, arguments: Arguments) -> Result:
    kill(context, lsids_of("killSessions", arguments.value))
    return {}


COMMAND = Command(
    "killSessions", run, privilege=PUBLIC, role=Role.ANY, value=Type.DOCUMENTS, help="end what runs in sessions"
)
