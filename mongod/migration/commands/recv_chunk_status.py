"""_recvChunkStatus: how far a migration to this shard is.

    {_recvChunkStatus: 1, migrationId, waitMillis: n}
    -> {state, reason, ns, min, max}; waits at most `waitMillis` for the preparation to end

OperationFailed when the migration does not run here (any more).
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.migration import DatabaseMigration
from mongod.migration.recipient_parameters import MIGRATION_ID
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    status = await shard_of(context).recipient.status(arguments["migrationId"], arguments["waitMillis"] / 1000)
    migration = status.migration
    reply = {"state": status.state.name.lower(), "reason": status.reason, "ns": migration.namespace}
    if isinstance(migration, DatabaseMigration):
        return reply
    bounds = migration.range
    return {**reply, "min": document_to_python(bounds.min.raw), "max": document_to_python(bounds.max.raw)}


COMMAND = internal_command(
    "_recvChunkStatus",
    run,
    parameters=(
        MIGRATION_ID,
        Parameter("waitMillis", Type.INT, default=0, minimum=0, maximum=30_000, internal=True),
    ),
    admin_only=True,
    help="how far a migration to this shard is",
)
