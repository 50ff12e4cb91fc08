"""startSession: a new logical session. Drivers make their own; shells ask."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role
from docstore.commands.sessions.fields import NO_USER_DIGEST, lsid_document
from docstore.commands.sessions.registry import TIMEOUT_MINUTES


def run(context: Context, _arguments: Arguments) -> Result:
    lsid = context.services.sessions.start(NO_USER_DIGEST)
    return {"id": lsid_document(lsid), "timeoutMinutes": TIMEOUT_MINUTES}


COMMAND = Command("startSession", run, privilege=PUBLIC, role=Role.ANY, tolerant=True, help="begin a logical session")
