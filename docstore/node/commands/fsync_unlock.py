"""fsyncUnlock: release one lock of fsync; writes continue when all are released."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import FSYNC_UNLOCK
from docstore.errors import NO_CODE, CommandError
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    node = node_of(context)
    lock = node.store.write_lock
    if not lock.is_held:
        raise CommandError(NO_CODE, "fsyncUnlock called when not locked")
    lock.release()
    if not lock.is_held:
        node.engine.release_files()
    return {"info": "fsyncUnlock completed", "lockCount": Int64(lock.count)}


COMMAND = FSYNC_UNLOCK.command(run)
