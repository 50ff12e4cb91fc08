"""`clearJumboFlag`: let the balancer try again to move a chunk (`find` or `bounds`) that was too large."""

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
    if ("find" in args) == ("bounds" in args):
        raise CommandError(Code.InvalidOptions, "must specify exactly one of find and bounds")
    await router.cache.refresh(args.value)

    async def attempt(routing: Routing) -> None:
        collection = sharded(routing)
        await router.chunk_commands.set_jumbo(collection, chosen_chunk(collection, args), jumbo=False)

    await router.cache.routed(args.value, attempt)
    return {}


COMMAND = Command(
    "clearJumboFlag",
    run,
    privilege=Privilege("clearJumboFlag", Resource.COLLECTION),
    role=Role.ANY,
    value=Type.NAMESPACE,
    admin_only=True,
    parameters=(
        Parameter("find", Type.OBJECT),
        Parameter("bounds", Type.DOCUMENTS),
    ),
    help="Let a chunk be moved again that was too large.",
)
