"""_configsvrEnsureDatabaseVersionIsGreaterThan: see `docstore.sharding.requests.ensure_database_version_greater`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.version import DatabaseVersion


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    version = DatabaseVersion.from_document(document_to_python(arguments["databaseVersion"]))
    shard = server.cluster.raise_version(arguments.value, version)
    await server.committed()
    return {"shard": shard}


COMMAND = internal_command(
    "_configsvrEnsureDatabaseVersionIsGreaterThan",
    run,
    value=Type.STRING,
    parameters=(Parameter("databaseVersion", Type.OBJECT, required=True, internal=True),),
    help="keep a delayed commit of movePrimary from succeeding, and tell the primary shard",
)
