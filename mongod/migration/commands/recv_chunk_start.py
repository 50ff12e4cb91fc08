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
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.sharding.migration import migration_from
from docstore.sharding.recipient_messages import Definition
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


COMMAND = Command(
    "_recvChunkStart",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    admin_only=True,
    parameters=(
        Parameter("migrationId", Type.UUID, required=True, internal=True),
        Parameter("ns", Type.NAMESPACE, required=True, internal=True),
        Parameter("uuid", Type.UUID, required=True, internal=True),
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
        Parameter("keyPattern", Type.OBJECT, required=True, internal=True),
        Parameter("min", Type.OBJECT, required=True, internal=True),
        Parameter("max", Type.OBJECT, required=True, internal=True),
        Parameter("lastmod", Type.TIMESTAMP, required=True, internal=True),
        Parameter("fromShard", Type.STRING, required=True, internal=True),
        Parameter("toShard", Type.STRING, required=True, internal=True),
        Parameter("options", Type.OBJECT, required=True, internal=True),
        Parameter("indexes", Type.DOCUMENTS, required=True, internal=True),
        Parameter("keyspace", Type.OBJECT, internal=True),
    ),
    help="begin to receive a chunk",
)
