"""_configsvrEnsureChunkVersionIsGreaterThan: see `docstore.sharding.requests.ensure_chunk_version_greater`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.version import Lastmod


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    record = server.chunks.expect(arguments.value, arguments["epoch"])
    bounds = record.key.range(arguments["min"], arguments["max"])
    shard = server.chunks.raise_version(record, bounds, Lastmod.from_timestamp(arguments["lastmod"]))
    version = server.chunks.version(record)
    await server.committed()
    return {"shard": shard, "collectionVersion": version.to_document()}


COMMAND = internal_command(
    "_configsvrEnsureChunkVersionIsGreaterThan",
    run,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
        Parameter("min", Type.OBJECT, required=True, internal=True),
        Parameter("max", Type.OBJECT, required=True, internal=True),
        Parameter("lastmod", Type.TIMESTAMP, required=True, internal=True),
    ),
    help="keep a delayed commit of a move from succeeding, and tell who owns the chunk",
)
