"""_configsvrCreateDatabase: see `docstore.sharding.requests.create_database`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    database = server.cluster.ensure_database(
        arguments.value, partitioned=False, primary=None, keyspace=arguments["keyspace"]
    )
    await server.committed()
    return {"primary": database.primary, "partitioned": database.partitioned}


COMMAND = internal_command(
    "_configsvrCreateDatabase",
    run,
    value=Type.STRING,
    parameters=(Parameter("keyspace", Type.BOOL, default=False, internal=True),),
    help="give a database a primary shard",
)
