"""_configsvrRemoveDatabase: a coordinator has dropped a database on every shard.

    {_configsvrRemoveDatabase: database, databaseVersion: {uuid, timestamp, lastMod}}

Its collections go with it. Nothing changes when there is none of that version (any more).
"""

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
    database = server.cluster.database(arguments.value)
    if database is not None and database.version == version:
        for record in server.chunks.of_database(database.name):
            server.chunks.remove(record)
        server.cluster.drop_database(database.name)
        server.changelog.add("dropDatabase", database.name, {})
    await server.committed()
    return {}


COMMAND = internal_command(
    "_configsvrRemoveDatabase",
    run,
    value=Type.STRING,
    parameters=(Parameter("databaseVersion", Type.OBJECT, required=True, internal=True),),
    help="forget a database that was dropped",
)
