"""splitChunk: have a chunk of this shard cut; see `docstore.sharding.requests.split_chunk`."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.key import ShardKey
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    if arguments["from"] != shard.name:
        raise CommandError(Code.ConflictingOperationInProgress, f"this is {shard.name}, not {arguments['from']}")
    key = ShardKey.parse(document_to_python(arguments["keyPattern"]))
    bounds = key.range(arguments["min"], arguments["max"])
    points = [key.bound(raw) for raw in arguments["splitKeys"]]
    shard.check_not_moving(arguments.value, bounds)
    reply = document_to_python(
        await shard.config_servers().command(
            requests.commit_chunk_split(arguments.value, arguments["epoch"], shard.name, bounds, points)
        )
    )
    return {"version": reply["version"]}


COMMAND = Command(
    "splitChunk",
    run,
    privilege=Privilege("internal", Resource.CLUSTER),
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("keyPattern", Type.OBJECT, required=True),
        Parameter("min", Type.OBJECT, required=True),
        Parameter("max", Type.OBJECT, required=True),
        Parameter("splitKeys", Type.DOCUMENTS, required=True),
        Parameter("from", Type.STRING, required=True),
        Parameter("epoch", Type.OBJECT_ID, required=True),
    ),
    help="cut a chunk",
)
