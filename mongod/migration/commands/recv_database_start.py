"""_recvDatabaseStart: a donor begins to move a database to this shard, its future primary shard.

    {_recvDatabaseStart: 1, migration: {...}}    in the form of `docstore.sharding.migration.DatabaseMigration.document`
    -> {state}

Answers at once; `_recvChunkStatus` tells when documents may be sent. The other commands of a chunk's migration serve
this one too. Idempotent. ConflictingOperationInProgress while another migration runs.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.migration import DatabaseMigration
from mongod.migration.recipient_parameters import required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    migration = DatabaseMigration.from_document(document_to_python(arguments["migration"]))
    status = await shard_of(context).recipient.start(migration, None)
    return {"state": status.state.name.lower()}


COMMAND = internal_command(
    "_recvDatabaseStart",
    run,
    parameters=(required("migration", Type.OBJECT),),
    admin_only=True,
    help="begin to receive a database",
)
