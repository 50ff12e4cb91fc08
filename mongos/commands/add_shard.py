"""`addShard`: make a replica set part of the cluster: `{addshard: "set/host:port,...", name}`."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.sharding import requests
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    answer = await router.config.command(
        "admin", requests.add_shard(args.value, args["name"]), repeatable=True, deadline=context.deadline
    )
    await router.shards.refresh()
    return answer.relayed()


COMMAND = Command(
    "addShard",
    run,
    aliases=("addshard",),
    privilege=Privilege("addShard", Resource.CLUSTER),
    role=Role.ANY,
    value=Type.STRING,
    admin_only=True,
    write_concern=True,
    parameters=(
        Parameter("name", Type.STRING),
        Parameter("maxSize", Type.INT, unsupported="maxSize is not supported: shards have no size limit"),
    ),
    help="Add a replica set as a shard.",
)
