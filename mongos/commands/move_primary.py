"""`movePrimary`: give a database another primary shard, which gets all that is not sharded of it."""

from __future__ import annotations

from typing import Any

from docstore.commands.access.catalog_needs import named_database_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from docstore.namespace import check_database_name
from docstore.sharding.ddl.requests import move_primary
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.broadcast import coordinated

_OWN = ("admin", "config", "local")


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router, database = router_of(context), args.value
    check_database_name(database)
    if database in _OWN:
        raise CommandError(Code.InvalidOptions, f"Can't move primary for {database} database")
    if not args["to"]:
        raise CommandError(Code.InvalidOptions, "you have to specify where you want to move it")
    to = await router.shards.get(args["to"])
    about = f"{database}.$cmd"

    async def attempt(routing: Routing) -> dict[str, Any]:
        if routing.database is None:
            raise CommandError(Code.NamespaceNotFound, f"Database {database} not found")
        if routing.primary != to.name:
            await coordinated(context, routing, move_primary(database, routing.database, to.name))
        return {}

    await router.cache.refresh(about)
    try:
        reply: dict[str, Any] = await router.cache.routed(about, attempt)
        return reply
    finally:
        router.cache.forget_database(database)


COMMAND = Command(
    "movePrimary",
    run,
    aliases=("moveprimary",),
    privilege=Privilege("moveChunk", Resource.CLUSTER),
    needs=named_database_needs("moveChunk"),
    role=Role.ANY,
    value=Type.STRING,
    admin_only=True,
    write_concern=True,
    parameters=(Parameter("to", Type.STRING, required=True),),
    help="Give a database another primary shard.",
)
