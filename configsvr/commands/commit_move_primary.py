"""_configsvrCommitMovePrimary: see `docstore.sharding.requests.commit_move_primary`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.sharding.version import DatabaseVersion


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    version = DatabaseVersion.from_document(document_to_python(arguments["databaseVersion"]))
    if server.cluster.move_primary(arguments.value, version, arguments["to"]):
        server.changelog.add("movePrimary", arguments.value, {"to": arguments["to"]})
    await server.committed()
    return {}


COMMAND = Command(
    "_configsvrCommitMovePrimary",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    parameters=(
        Parameter("databaseVersion", Type.OBJECT, required=True, internal=True),
        Parameter("to", Type.STRING, required=True, internal=True),
    ),
    help="give a database another primary shard",
)
