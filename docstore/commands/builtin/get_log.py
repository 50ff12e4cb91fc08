"""getLog: the newest log lines that are still in memory."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.log import RECENT, WARNINGS

LOGS = {"global": RECENT, "startupWarnings": WARNINGS}


def run(_context: Context, arguments: Arguments) -> Result:
    name = arguments.value
    if name == "*":
        return {"names": list(LOGS)}
    log = LOGS.get(name)
    if log is None:
        raise CommandError(Code.OperationFailed, f"No log named '{name}'")
    return {"totalLinesWritten": len(log.lines), "log": list(log.lines)}


COMMAND = Command(
    "getLog", run, privilege=Privilege("getLog", Resource.CLUSTER), role=Role.ANY, admin_only=True, value=Type.STRING,
    help="the newest log lines",
)  # fmt: skip
