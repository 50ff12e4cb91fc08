"""_shardsvrMoveRange: see `docstore.sharding.requests.move_range`."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.sharding.move_request import Extent, MoveRequest
from docstore.sharding.version import ShardVersion
from mongod.migration.donor.moving import move
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    version = ShardVersion.from_document(document_to_python(arguments["version"]))
    extent = Extent(arguments["maxChunkSizeBytes"], arguments["partBytes"], arguments["upperPart"])
    request = MoveRequest(
        namespace=arguments.value,
        epoch=version.epoch,
        low=arguments["min"],
        high=arguments["max"],
        to=arguments["toShard"],
        extent=extent,
    )
    identity = await move(shard, request)
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
        Parameter("partBytes", Type.LONG, default=0, minimum=0, internal=True),
        Parameter("upperPart", Type.BOOL, default=False, internal=True),
        Parameter("waitForDelete", Type.SAFE_BOOL, default=False, internal=True),
    ),
    help="move a chunk of this shard, or a part of it, to another",
)
