"""_configsvrCommitMovePrimary: see `docstore.sharding.requests.commit_move_primary`."""

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
    if server.cluster.move_primary(arguments.value, version, arguments["to"]):
        server.changelog.add("movePrimary", arguments.value, {"to": arguments["to"]})
    await server.committed()
    return {}


COMMAND = internal_command(
    "_configsvrCommitMovePrimary",
    run,
    value=Type.STRING,
    parameters=(
        Parameter("databaseVersion", Type.OBJECT, required=True, internal=True),
        Parameter("to", Type.STRING, required=True, internal=True),
    ),
    help="give a database another primary shard",
)
