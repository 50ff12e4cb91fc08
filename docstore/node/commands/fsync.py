"""fsync: everything written so far is on disk when the reply comes. Locking against writes is not supported."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.node.node import node_of


async def run(context: Context, _arguments: Arguments) -> Result:
    await node_of(context).replication.flusher.wait_flushed()
    return {"numFiles": 1}


COMMAND = Command(
    "fsync", run, privilege=Privilege("fsync", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(
        Parameter("lock", Type.SAFE_BOOL, unsupported="fsync cannot lock the server against writes"),
        Parameter("async", Type.SAFE_BOOL, unsupported="fsync always waits for the disk"),
        Parameter("fsyncLockAcquisitionTimeoutMillis", Type.INT, unsupported="fsync cannot lock the server"),
    ),
    help="write everything to disk",
)  # fmt: skip
