"""_recvChunkDocuments: a donor sends documents of the range, or changes since.

    {_recvChunkDocuments: 1, migrationId, ns, number: long, majority: bool, deleted: [_id, ...], documents: [...]}

`number` counts from 1; a repeated batch is acknowledged and ignored. `documents` are stored, replacing those with the
same `_id`; with `majority` the answer waits until a majority has everything so far. With `clone` none of them was
sent before, and the answer comes when the batch before is stored. OperationFailed when it does not fit.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import values
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.recipient_messages import TakeDocuments
from mongod.migration.recipient_parameters import MIGRATION_ID, NUMBER, required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    deleted_ids = [] if arguments["deleted"] is None else values(arguments["deleted"])
    await shard_of(context).recipient.take(
        lambda token: TakeDocuments(
            token=token,
            id=arguments["migrationId"],
            number=arguments["number"],
            documents=arguments["documents"],
            removed_ids=deleted_ids,
            clone=arguments["clone"],
            majority=arguments["majority"],
            namespace=arguments["ns"],
        )
    )
    return {}


COMMAND = internal_command(
    "_recvChunkDocuments",
    run,
    parameters=(
        MIGRATION_ID,
        required("ns", Type.STRING),
        NUMBER,
        Parameter("clone", Type.BOOL, default=False, internal=True),
        Parameter("majority", Type.BOOL, default=False, internal=True),
        Parameter("deleted", Type.ARRAY, internal=True),
        Parameter("documents", Type.DOCUMENTS, default=(), internal=True),
    ),
    admin_only=True,
    help="store documents of a chunk that comes to this shard",
)
