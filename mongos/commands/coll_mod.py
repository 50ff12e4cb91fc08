"""`collMod`: to every shard that holds a part of the collection."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role, Type
from mongos.routing.broadcast import to_holders, with_raw


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    return with_raw(await to_holders(context, repeatable=False))


COMMAND = Command(
    "collMod",
    run,
    aliases=("collmod",),
    privilege=Privilege("collMod", Resource.COLLECTION),
    role=Role.PRIMARY,
    value=Type.COLLECTION,
    tolerant=True,
    help="Change the options of a collection, of an index or of a view. The shard checks the request.",
)
