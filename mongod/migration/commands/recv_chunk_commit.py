"""_recvChunkCommit: the donor has sent all; make it survive any failover of this shard.

    {_recvChunkCommit: 1, migrationId, last: long}       `last`: the number of the last batch

OperationFailed when not everything was received; then the donor must not commit.
"""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Type
from docstore.commands.specs.cluster import internal_command
from mongod.migration.recipient_parameters import MIGRATION_ID, required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    await shard_of(context).recipient.commit(arguments["migrationId"], arguments["last"])
    return {}


COMMAND = internal_command(
    "_recvChunkCommit",
    run,
    parameters=(
        MIGRATION_ID,
        required("last", Type.LONG),
    ),
    admin_only=True,
    help="make what was received of a chunk permanent",
)
