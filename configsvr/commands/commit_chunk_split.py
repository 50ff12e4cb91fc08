"""_configsvrCommitChunkSplit: see `docstore.sharding.requests.commit_chunk_split`."""

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
    points = [record.key.bound(raw) for raw in arguments["splitPoints"]]
    before = server.chunks.version(record)
    version = server.chunks.split(record, arguments["shard"], bounds, points)
    if version != before:
        details = {
            "before": {"min": bounds.min.document(), "max": bounds.max.document()},
            "splitPoints": [point.document() for point in points],
            "lastmod": version.lastmod.to_timestamp(),
        }
        event = "split" if len(points) == 1 else "multi-split"
        server.changelog.add(event, arguments.value, details, shard=arguments["shard"])
    await server.committed()
    return {"version": version.to_document()}


COMMAND = internal_command(
    "_configsvrCommitChunkSplit",
    run,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
        Parameter("shard", Type.STRING, required=True, internal=True),
        Parameter("min", Type.OBJECT, required=True, internal=True),
        Parameter("max", Type.OBJECT, required=True, internal=True),
        Parameter("splitPoints", Type.DOCUMENTS, required=True, internal=True),
    ),
    help="cut a chunk",
)
