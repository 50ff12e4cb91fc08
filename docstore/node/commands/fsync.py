"""fsync: make all writes durable before the reply; with `lock`, block writes until fsyncUnlock."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
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


COMMAND = Command(
    "fsync", run, privilege=Privilege("fsync", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(
        Parameter("lock", Type.SAFE_BOOL, default=False),
        Parameter("async", Type.SAFE_BOOL, default=False),
        Parameter("fsyncLockAcquisitionTimeoutMillis", Type.INT, unsupported="the lock is taken at once"),
    ),
    help="write everything to disk",
)  # fmt: skip
