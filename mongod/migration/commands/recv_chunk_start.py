"""_recvChunkStart: a donor begins a migration to this shard.

    {_recvChunkStart: 1, migrationId, ns, uuid, epoch, keyPattern, min, max, lastmod, fromShard, toShard,
     options: {...}, indexes: [spec, ...], [keyspace: {...}]}
    -> {state}

Answers at once; `_recvChunkStatus` tells when documents may be sent. Sent again it is the same migration.
ConflictingOperationInProgress while another one runs here.
"""

from __future__ import annotations

from typing import Any

from docstore.collection.catalog.options import parse_options
from docstore.collection.index.spec import parse_index_spec
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.migration import migration_from
from docstore.sharding.recipient_messages import Definition
from mongod.migration.recipient_parameters import MIGRATION_ID, required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    migration = migration_from(context.raw)
    for spec in arguments["indexes"]:
        parse_index_spec(spec)
    for options in filter(None, (arguments["options"], arguments["keyspace"])):
        parse_options(options)
    definition = Definition(arguments["options"], tuple(arguments["indexes"]), arguments["keyspace"])
    status = await shard_of(context).recipient.start(migration, definition)
    return {"state": status.state.name.lower()}


COMMAND = internal_command(
    "_recvChunkStart",
    run,
    parameters=(
        MIGRATION_ID,
        required("ns", Type.NAMESPACE),
        required("uuid", Type.UUID),
        required("epoch", Type.OBJECT_ID),
        required("keyPattern", Type.OBJECT),
        required("min", Type.OBJECT),
        required("max", Type.OBJECT),
        required("lastmod", Type.TIMESTAMP),
        required("fromShard", Type.STRING),
        required("toShard", Type.STRING),
        required("options", Type.OBJECT),
        required("indexes", Type.DOCUMENTS),
        Parameter("keyspace", Type.OBJECT, internal=True),
    ),
    admin_only=True,
    help="begin to receive a chunk",
)
