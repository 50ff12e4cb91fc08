"""_configsvrEnableSharding: see `docstore.sharding.requests.enable_sharding`."""

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
    primary = arguments["primaryShard"]
    database = server.cluster.ensure_database(
        arguments.value, partitioned=True, primary=primary, keyspace=arguments["keyspace"]
    )
    server.changelog.add("enableSharding", arguments.value, {"primary": database.primary})
    await server.committed()
    return {"primary": database.primary, "partitioned": True}


COMMAND = internal_command(
    "_configsvrEnableSharding",
    run,
    value=Type.STRING,
    parameters=(
        Parameter("primaryShard", Type.STRING, internal=True),
        Parameter("keyspace", Type.BOOL, default=False, internal=True),
    ),
    help="let a database's collections be sharded",
)
