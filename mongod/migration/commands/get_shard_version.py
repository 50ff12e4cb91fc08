"""getShardVersion: this member's routing of a collection, read from the config servers when needed.

{getShardVersion: ns, fullMetadata: bool} -> {configServer, inShardedMode, mine: Timestamp, global: Timestamp,
[metadata: {collVersion, shardVersion, chunks}]}
"""

from __future__ import annotations

from typing import Any

from bson.timestamp import Timestamp

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Type
from docstore.commands.specs.processes import GET_SHARD_VERSION
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    identity = shard.identity
    if identity is None:
        return {"configServer": "", "inShardedMode": False, "mine": Timestamp(0, 0), "global": Timestamp(0, 0)}
    metadata = await shard.shard_filter.refresh(arguments.value)
    collection = metadata.routing.collection
    reply: dict[str, Any] = {
        "configServer": identity.config,
        "inShardedMode": True,
        "mine": metadata.version.lastmod.to_timestamp(),
        "global": metadata.routing.version().lastmod.to_timestamp(),
    }
    if arguments["fullMetadata"] and collection is not None:
        reply["metadata"] = {
            "collVersion": collection.chunks.version.lastmod.to_timestamp(),
            "collVersionEpoch": collection.epoch,
            "shardVersion": metadata.version.lastmod.to_timestamp(),
            "keyPattern": collection.key.document(),
            "chunks": [
                [chunk.min.document(), chunk.max.document()]
                for chunk in collection.chunks
                if chunk.shard == identity.name
            ],
        }
    return reply


COMMAND = GET_SHARD_VERSION.command(
    run,
    Exceptional(
        "only a shard owns chunks that it could list", Parameter("fullMetadata", Type.SAFE_BOOL, default=False)
    ),
)
