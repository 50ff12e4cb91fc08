"""backupClose: remove the checkpoint of an open backup."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Result, Role, Type
from docstore.node.backups import PRIVILEGE, OpenBackups, needs
from docstore.node.node import node_of


async def run(context: Context, arguments: Arguments) -> Result:
    await node_of(context).parts[OpenBackups].close(arguments.value)
    return {}


COMMAND = Command(
    "backupClose", run, privilege=PRIVILEGE, needs=needs, role=Role.ANY, admin_only=True, value=Type.OBJECT_ID,
    help="remove an open backup",
)  # fmt: skip
