"""fsync: make all writes durable before the reply; with `lock`, block writes until fsyncUnlock."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import FSYNC
from docstore.node.node import node_of
from docstore.storage import StorageError

_SEE_ALSO = "http://dochub.mongodb.org/core/fsynccommand"


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    flusher = node.replication.flusher
    if not arguments["lock"]:
        if arguments["async"]:
            flusher.flush_soon()
        else:
            await flusher.wait_flushed()
        return {"numFiles": 1}
    lock = node.store.write_lock
    lock.take()
    try:
        await flusher.wait_flushed()
        while not node.engine.hold_files():
            await node.pause()
    except (OSError, RuntimeError, StorageError):
        lock.release()
        raise
    return {
        "info": "now locked against writes, use db.fsyncUnlock() to unlock",
        "lockCount": Int64(lock.count),
        "seeAlso": _SEE_ALSO,
    }


COMMAND = FSYNC.command(run)
