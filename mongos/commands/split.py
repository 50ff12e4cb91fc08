"""`split`: cut a chunk in the middle (`find`, `bounds`) or at a point (`middle`)."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.chunk_choice import chosen_chunk, sharded, split_point

_WAYS = ("find", "bounds", "middle")


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    if sum(option in args for option in _WAYS) != 1:
        raise CommandError(Code.InvalidOptions, "must specify exactly one of find, bounds and middle")
    await router.cache.refresh(args.value)

    async def attempt(routing: Routing) -> None:
        collection = sharded(routing)
        if "middle" in args:
            chunk, point = split_point(collection, args["middle"])
            points = [point]
        else:
            chunk = chosen_chunk(collection, args)
            points = await router.chunk_commands.split_points(collection, chunk, None)
            if not points:
                raise CommandError(Code.CannotMutateObject, "cannot split the chunk: it has a single key")
        await router.chunk_commands.split(collection, chunk, points)

    await router.cache.routed(args.value, attempt)
    return {}


COMMAND = Command(
    "split",
    run,
    privilege=Privilege("splitChunk", Resource.COLLECTION),
    role=Role.ANY,
    value=Type.NAMESPACE,
    admin_only=True,
    parameters=(
        Parameter("find", Type.OBJECT),
        Parameter("bounds", Type.DOCUMENTS),
        Parameter("middle", Type.OBJECT),
    ),
    help="Split a chunk.",
)
