"""replSetResizeOplog: how long this member's oplog may get, from now on and after restarts."""

from __future__ import annotations

from math import isnan

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of

MIN_OPLOG_MB = 990
MAX_OPLOG_MB = 1 << 30
_MEBIBYTE = 1 << 20


async def run(context: Context, arguments: Arguments) -> Result:
    replication = node_of(context).replication
    limits = replication.oplog_limits
    if limits is None:
        raise CommandError(Code.NamespaceNotFound, "oplog does not exist")
    size, hours = arguments["size"], arguments["minRetentionHours"]
    if size is not None and isnan(size):
        raise CommandError(51024, f"BSON field 'size' value must be >= {MIN_OPLOG_MB}, actual value '0'")
    if size is not None or hours is not None:
        limits.set(
            max_bytes=None if size is None else int(size * _MEBIBYTE),
            retention_hours=0.0 if hours is not None and isnan(hours) else hours,
        )
        await replication.flusher.wait_flushed()
    return {}


COMMAND = Command(
    "replSetResizeOplog", run, privilege=Privilege("replSetResizeOplog", Resource.CLUSTER), role=Role.ANY,
    admin_only=True, user_first=True, tolerant=True, value=Type.NUMBER,
    parameters=(
        Parameter("size", Type.NUMBER, minimum=MIN_OPLOG_MB, maximum=MAX_OPLOG_MB),
        Parameter("minRetentionHours", Type.NUMBER, minimum=0),
    ),
    help="how long this member's oplog may get",
)  # fmt: skip
