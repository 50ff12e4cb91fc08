"""_configsvrSetJumbo: see `docstore.sharding.requests.set_jumbo`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    record = server.chunks.expect(arguments.value, arguments["epoch"])
    bounds = record.key.range(arguments["min"], arguments["max"])
    version = server.chunks.set_jumbo(record, bounds, arguments["jumbo"])
    await server.committed()
    return {"version": version.to_document()}


COMMAND = internal_command(
    "_configsvrSetJumbo",
    run,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
        Parameter("min", Type.OBJECT, required=True, internal=True),
        Parameter("max", Type.OBJECT, required=True, internal=True),
        Parameter("jumbo", Type.BOOL, required=True, internal=True),
    ),
    help="flag a chunk as too large to move, or take the flag away",
)
