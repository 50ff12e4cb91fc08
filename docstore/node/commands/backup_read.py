"""backupRead: return bytes of a file of an open backup, 8 MiB at most, fewer at the end of the file."""

from __future__ import annotations

from bson.binary import Binary

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Result, Role, Type
from docstore.node.backups import MOST_BYTES, PRIVILEGE, OpenBackups, needs
from docstore.node.node import node_of


async def run(context: Context, arguments: Arguments) -> Result:
    backups = node_of(context).parts[OpenBackups]
    identity, name = arguments.value, arguments["file"]
    return {"data": Binary(await backups.read(identity, name, arguments["offset"], arguments["length"]))}


COMMAND = Command(
    "backupRead", run, privilege=PRIVILEGE, needs=needs, role=Role.ANY, admin_only=True, value=Type.OBJECT_ID,
    parameters=(
        Parameter("file", Type.STRING, required=True),
        Parameter("offset", Type.INT, default=0, minimum=0),
        Parameter("length", Type.INT, default=MOST_BYTES, minimum=1),
    ),
    help="read from a file of an open backup",
)  # fmt: skip
