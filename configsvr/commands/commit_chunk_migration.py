"""_configsvrCommitChunkMigration: see `docstore.sharding.requests.commit_chunk_migration`."""

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
    donor, recipient = arguments["fromShard"], arguments["toShard"]
    server.cluster.shard(recipient)
    before = server.chunks.version(record)
    after = server.chunks.move(record, bounds, Lastmod.from_timestamp(arguments["lastmod"]), donor, recipient)
    if after != before:
        details = {"min": bounds.min.document(), "max": bounds.max.document(), "from": donor, "to": recipient}
        server.changelog.add("moveChunk.commit", arguments.value, details)
    await server.committed()
    return {"collectionVersion": after.to_document()}


COMMAND = internal_command(
    "_configsvrCommitChunkMigration",
    run,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
        Parameter("min", Type.OBJECT, required=True, internal=True),
        Parameter("max", Type.OBJECT, required=True, internal=True),
        Parameter("lastmod", Type.TIMESTAMP, required=True, internal=True),
        Parameter("fromShard", Type.STRING, required=True, internal=True),
        Parameter("toShard", Type.STRING, required=True, internal=True),
    ),
    help="give a chunk to another shard",
)
