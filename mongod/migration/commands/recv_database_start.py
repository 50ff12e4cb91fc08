"""_recvDatabaseStart: a donor begins to give a database to this shard, which is to be its primary shard.

    {_recvDatabaseStart: 1, migration: {...}}    as `docstore.sharding.migration.DatabaseMigration.document` has it
    -> {state}

Answers at once; `_recvChunkStatus` tells when documents may be sent, and the other commands of the migration of a chunk
are those of this one too. Sent again it is the same migration. ConflictingOperationInProgress while another one runs.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.sharding.migration import DatabaseMigration
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    migration = DatabaseMigration.from_document(document_to_python(arguments["migration"]))
    status = await shard_of(context).recipient.start(migration, None)
    return {"state": status.state.name.lower()}


COMMAND = Command(
    "_recvDatabaseStart",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    admin_only=True,
    parameters=(Parameter("migration", Type.OBJECT, required=True, internal=True),),
    help="begin to receive a database",
)
