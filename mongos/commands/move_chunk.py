"""`moveChunk`: move the chunk of a key (`find`) or with exact `bounds` to a shard."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.chunk_choice import chosen_chunk, sharded


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    began = router.clock()
    if ("find" in args) == ("bounds" in args):
        raise CommandError(Code.InvalidOptions, "must specify exactly one of find and bounds")
    receiver = await router.shards.get(args["to"])
    await router.cache.refresh(args.value)

    async def attempt(routing: Routing) -> None:
        collection = sharded(routing)
        chunk = chosen_chunk(collection, args)
        if chunk.shard != receiver.name:
            await router.chunk_commands.move(
                collection,
                chunk,
                receiver.name,
                force_jumbo=args["forceJumbo"],
                wait_for_delete=args["_waitForDelete"] or args["waitForDelete"],
            )

    await router.cache.routed(args.value, attempt)
    return {"millis": int((router.clock() - began) * 1000)}


COMMAND = Command(
    "moveChunk",
    run,
    aliases=("movechunk",),
    privilege=Privilege("moveChunk", Resource.COLLECTION),
    role=Role.ANY,
    value=Type.NAMESPACE,
    admin_only=True,
    write_concern=True,
    parameters=(
        Parameter("find", Type.OBJECT),
        Parameter("bounds", Type.DOCUMENTS),
        Parameter("to", Type.STRING, required=True),
        Parameter("forceJumbo", Type.SAFE_BOOL, default=False),
        Parameter("_waitForDelete", Type.SAFE_BOOL, default=False),
        Parameter("waitForDelete", Type.SAFE_BOOL, default=False),
        Parameter("_secondaryThrottle", (Type.SAFE_BOOL, Type.OBJECT), default=False),
        Parameter("maxChunkSizeBytes", Type.INT, unsupported="maxChunkSizeBytes is not supported: chunks move whole"),
    ),
    help="Move a chunk to a shard.",
)
