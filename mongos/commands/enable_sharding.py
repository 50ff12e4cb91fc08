"""`enableSharding`: create a database, on a shard of choice or on the one with fewest; an existing one may stay."""

from __future__ import annotations

from typing import Any

from docstore.commands.access.catalog_needs import named_database_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.namespace import check_database_name
from docstore.sharding import requests
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    check_database_name(args.value)
    await router.config.command("admin", requests.enable_sharding(args.value, args["primaryShard"]), repeatable=True)
    router.cache.forget_database(args.value)
    return {}


COMMAND = Command(
    "enableSharding",
    run,
    aliases=("enablesharding",),
    privilege=Privilege("enableSharding", Resource.DATABASE),
    needs=named_database_needs("enableSharding"),
    role=Role.ANY,
    value=Type.STRING,
    admin_only=True,
    write_concern=True,
    parameters=(Parameter("primaryShard", Type.STRING),),
    help="Create a database whose collections may be sharded.",
)
