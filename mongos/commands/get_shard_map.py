"""`getShardMap`: the connection strings of the config servers and of all shards, and which host belongs to which."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    shards = router_of(context).shards
    strings = {"config": shards.config.client.connection_string}
    strings |= {shard.name: shard.client.connection_string for shard in await shards.all()}
    hosts = {host: name for name, string in strings.items() for host in string.rpartition("/")[2].split(",")}
    return {"map": strings, "hosts": hosts, "connStrings": {string: name for name, string in strings.items()}}


COMMAND = Command(
    "getShardMap",
    run,
    aliases=("getshardmap",),
    privilege=Privilege("getShardMap", Resource.CLUSTER),
    role=Role.ANY,
    admin_only=True,
    help="Where the shards are.",
)
