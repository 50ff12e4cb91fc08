"""backup: create a database directory with the current state, for another node; reads and writes continue meanwhile.

The copy shares immutable files with the database by hard links if both are on one file system. It has an identity of
its own as a database. Required are the privileges to read all that it holds, as for backupOpen, and to end the
process: files on its host are not written by somebody who may only read.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from docstore.commands.access.need import Need, on_cluster
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.backups import PRIVILEGE, needs
from docstore.node.node import node_of
from docstore.storage import StorageError
from docstore.storage.restored import mark_restored

LOG = component("STORAGE")


def _needs(context: Context, arguments: Arguments) -> tuple[Need, ...]:
    return (*needs(context, arguments), *on_cluster("shutdown"))


async def run(context: Context, arguments: Arguments) -> Result:
    path = Path(arguments["path"])
    if not path.is_absolute():
        raise CommandError(Code.BadValue, "path must be absolute")
    try:
        if path.exists():
            raise CommandError(Code.BadValue, f"{path} exists already: a backup makes its directory itself")
        if not path.parent.is_dir():
            raise CommandError(Code.BadValue, f"{path.parent} is not a directory")
    except OSError as error:
        raise CommandError(Code.BadValue, f"the path cannot be used: {error.strerror}") from None
    node = node_of(context)
    if path.resolve().is_relative_to(node.settings.dbpath.resolve()):
        raise CommandError(Code.BadValue, f"{path} is inside the database's own directory")
    engine = node.engine

    def make() -> None:
        engine.checkpoint(str(path))
        mark_restored(path)

    try:
        await asyncio.get_running_loop().run_in_executor(None, make)
    except (StorageError, OSError) as error:
        raise CommandError(Code.OperationFailed, str(error)) from error
    LOG.info("Backup made", path=str(path))
    return {"path": str(path)}


COMMAND = Command(
    "backup", run, privilege=PRIVILEGE, needs=_needs, role=Role.ANY, admin_only=True,
    parameters=(Parameter("path", Type.STRING, required=True),),
    help="make a directory from which another node can start",
)  # fmt: skip
