"""_shardsvrMoveRange: see `docstore.sharding.requests.move_range`."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.sharding.version import ShardVersion
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    version = ShardVersion.from_document(document_to_python(arguments["version"]))
    identity = await shard.move(
        arguments.value,
        arguments["min"],
        arguments["max"],
        version.epoch,
        arguments["toShard"],
        most_bytes=arguments["maxChunkSizeBytes"],
    )
    if arguments["waitForDelete"]:
        await shard.deleter.wait_done(identity)
    return {}


COMMAND = Command(
    "_shardsvrMoveRange",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("min", Type.OBJECT, required=True, internal=True),
        Parameter("max", Type.OBJECT, required=True, internal=True),
        Parameter("version", Type.OBJECT, required=True, internal=True),
        Parameter("toShard", Type.STRING, required=True, internal=True),
        Parameter("maxChunkSizeBytes", Type.LONG, default=0, minimum=0, internal=True),
        Parameter("waitForDelete", Type.SAFE_BOOL, default=False, internal=True),
    ),
    help="move a chunk of this shard to another",
)
