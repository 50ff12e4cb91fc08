"""_configsvrDropDatabase: see `docstore.sharding.requests.drop_database`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role, Type


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    return {"dropped": await server.drop_database(arguments.value)}


COMMAND = Command(
    "_configsvrDropDatabase",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    help="drop a database everywhere",
)
