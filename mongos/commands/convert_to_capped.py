"""`convertToCapped`: on the primary shard, for collections that are not sharded."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role, Type
from mongos.routing.broadcast import to_primary


async def run(context: Context, args: Arguments) -> bytes:
    return await to_primary(context, "convertToCapped")


COMMAND = Command(
    "convertToCapped",
    run,
    aliases=("converttocapped",),
    privilege=Privilege("convertToCapped", Resource.COLLECTION),
    role=Role.PRIMARY,
    value=Type.COLLECTION,
    tolerant=True,
    help="Make an unsharded collection capped. The shard checks the request.",
)
