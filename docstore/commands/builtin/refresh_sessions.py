"""refreshSessions: keep logical sessions alive that send no commands."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role, Type
from docstore.commands.sessions.lists import lsids_of


def run(context: Context, arguments: Arguments) -> Result:
    for lsid in lsids_of("refreshSessions", arguments.value):
        context.services.sessions.touch(lsid)
    return {}


COMMAND = Command(
    "refreshSessions", run, privilege=PUBLIC, role=Role.ANY, value=Type.DOCUMENTS, stable=True,
    help="renew the time-out of sessions",
)  # fmt: skip
