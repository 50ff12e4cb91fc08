"""_configsvrDropCollection: see `docstore.sharding.requests.drop_collection`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role, Type


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    record = server.chunks.collection(arguments.value)
    if record is not None:
        await server.drop_collection(record)
    else:
        await server.committed()
    return {"dropped": record is not None}


COMMAND = Command(
    "_configsvrDropCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    help="drop a sharded collection everywhere",
)
