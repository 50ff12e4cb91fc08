"""_configsvrRemoveShard: see `docstore.sharding.requests.remove_shard`. The balancer empties a draining shard."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role, Type
from docstore.errors import Code, CommandError


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    shard = server.cluster.shard(arguments.value)
    others = [other for other in server.cluster.shards() if other.name != shard.name and not other.draining]
    if not others:
        raise CommandError(Code.IllegalOperation, "Operation not allowed because it would remove the last shard")
    chunks = server.chunks.count_on(shard.name)
    databases = [database.name for database in server.cluster.databases() if database.primary == shard.name]
    reply: dict[str, Any] = {"msg": "draining ongoing", "state": "ongoing", "shard": shard.name}
    if not shard.draining:
        server.cluster.drain(shard)
        server.changelog.add("removeShard.start", "", {"shard": shard.name})
        reply |= {"msg": "draining started successfully", "state": "started"}
    elif not chunks and not databases:
        server.cluster.remove_shard(shard)
        server.changelog.add("removeShard", "", {"shard": shard.name})
        reply |= {"msg": "removeshard completed successfully", "state": "completed"}
    if reply["state"] != "completed":
        reply |= {
            "note": "you need to drop or movePrimary these databases",
            "remaining": {"chunks": Int64(chunks), "dbs": Int64(len(databases))},
            "dbsToMove": databases,
        }
    await server.committed()
    return reply


COMMAND = Command(
    "_configsvrRemoveShard",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    help="empty and remove a shard",
)
