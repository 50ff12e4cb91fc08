"""lockInfo: commands on one event loop take turns and hold no locks."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role


def run(_context: Context, _arguments: Arguments) -> Result:
    return {"lockInfo": []}


COMMAND = Command(
    "lockInfo", run, privilege=Privilege("serverStatus", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    tolerant=True, help="locks that are held: there are none",
)  # fmt: skip
