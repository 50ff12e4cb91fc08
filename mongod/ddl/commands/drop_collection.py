"""_shardsvrDropCollection: see `docstore.sharding.ddl.requests.drop_collection`."""

from __future__ import annotations

from bson.binary import Binary

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.sharding.ddl.operation import Kind
from mongod.ddl.coordinators import coordinators_of


async def run(context: Context, arguments: Arguments) -> Result:
    request = {"uuid": Binary(arguments["uuid"], 4)}
    return dict(await coordinators_of(context).run(context, Kind.DROP_COLLECTION, arguments.value, request))


COMMAND = Command(
    "_shardsvrDropCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(Parameter("uuid", Type.UUID, required=True, internal=True),),
    help="drop a sharded collection on every shard",
)
