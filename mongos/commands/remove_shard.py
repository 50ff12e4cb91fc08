"""`removeShard`: begin to empty a shard, or say how far that is; the balancer moves its chunks."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role, Type
from docstore.sharding import requests
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    answer = await router.config.command("admin", requests.remove_shard(args.value), repeatable=True)
    await router.shards.refresh()
    return answer.relayed()


COMMAND = Command(
    "removeShard",
    run,
    aliases=("removeshard",),
    privilege=Privilege("removeShard", Resource.CLUSTER),
    role=Role.ANY,
    value=Type.STRING,
    admin_only=True,
    write_concern=True,
    help="Drain a shard and remove it.",
)
