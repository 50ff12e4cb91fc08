"""endSessions: the client is done with these sessions; what is still open in them ends."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role, Type
from docstore.commands.sessions.lists import lsids_of

MAX_SESSIONS_AT_ONCE = 10_000


def run(context: Context, arguments: Arguments) -> Result:
    lsids = lsids_of("endSessions", arguments.value, most=MAX_SESSIONS_AT_ONCE)
    context.services.sessions.end(lsids)
    context.services.cursors.kill_sessions(lsids)
    return {}


COMMAND = Command(
    "endSessions", run, privilege=PUBLIC, role=Role.ANY, value=Type.DOCUMENTS, stable=True, help="end sessions"
)
