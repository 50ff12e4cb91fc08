"""_configsvrShardCollection: see `docstore.sharding.requests.commit_shard_collection`."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from configsvr.server import ConfigServer, server_of
from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.key import ShardKey
from docstore.sharding.version import DatabaseVersion


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    key = ShardKey.parse(document_to_python(arguments["key"]))
    uuid = Binary(arguments["uuid"], 4)
    version = server.chunks.shard(
        arguments.value, key, arguments["unique"], uuid, arguments["shard"],
        version=DatabaseVersion.from_document(document_to_python(arguments["databaseVersion"])),
        partitioner=arguments["partitioner"], target_shards=_candidates(server) if arguments["spread"] else (),
    )  # fmt: skip
    record = server.chunks.expect(arguments.value, version.epoch)
    shards = server.chunks.count_by_shard(record)
    details = {"shardKey": key.document(), "primary": arguments["shard"], "numChunks": sum(shards.values())}
    server.changelog.add("shardCollection.end", arguments.value, details)
    await server.committed()
    return {"uuid": uuid, "version": version.to_document(), "shards": sorted(shards)}


def _candidates(server: ConfigServer) -> list[str]:
    """The shards that take new chunks."""
    return [shard.name for shard in server.cluster.shards() if not shard.draining]


COMMAND = internal_command(
    "_configsvrShardCollection",
    run,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("key", Type.OBJECT, required=True, internal=True),
        Parameter("unique", Type.BOOL, default=False, internal=True),
        Parameter("uuid", Type.UUID, required=True, internal=True),
        Parameter("shard", Type.STRING, required=True, internal=True),
        Parameter("databaseVersion", Type.OBJECT, required=True, internal=True),
        Parameter("partitioner", Type.STRING, internal=True),
        Parameter("spread", Type.BOOL, default=False, internal=True),
    ),
    help="commit that a collection is sharded",
)
