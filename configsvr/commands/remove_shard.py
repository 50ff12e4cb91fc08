"""_configsvrRemoveShard: see `docstore.sharding.requests.remove_shard`. The balancer empties a draining shard."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Type
from docstore.commands.specs.cluster import internal_command
from docstore.errors import Code, CommandError


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    shard = server.cluster.shard(arguments.value)
    remaining_shards = [other for other in server.cluster.shards() if other.name != shard.name and not other.draining]
    if not remaining_shards:
        raise CommandError(Code.IllegalOperation, "Operation not allowed because it would remove the last shard")
    chunks = server.chunks.count_on(shard.name)
    databases = [database.name for database in server.cluster.databases() if database.primary == shard.name]
    reply: dict[str, Any] = {"msg": "draining ongoing", "state": "ongoing"}
    if not shard.draining:
        server.cluster.drain(shard)
        server.changelog.add("removeShard.start", "", {"shard": shard.name})
        reply = {"msg": "draining started successfully", "state": "started", "shard": shard.name}
    elif not chunks and not databases:
        server.cluster.remove_shard(shard)
        server.changelog.add("removeShard", "", {"shard": shard.name})
        reply = {"msg": "removeshard completed successfully", "state": "completed", "shard": shard.name}
    else:
        remaining_counts = {
            "chunks": chunks,
            "dbs": len(databases),
            "jumboChunks": server.chunks.count_jumbo_on(shard.name),
        }
        reply["remaining"] = {kind: Int64(count) for kind, count in remaining_counts.items()}
    if reply["state"] != "completed":
        reply |= {"note": "you need to drop or movePrimary these databases", "dbsToMove": databases}
    await server.committed()
    return reply


COMMAND = internal_command(
    "_configsvrRemoveShard",
    run,
    value=Type.STRING,
    help="empty and remove a shard",
)
