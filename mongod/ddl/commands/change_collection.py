"""_shardsvrChangeCollection: see `docstore.sharding.ddl.requests.change_collection`."""

from __future__ import annotations

from bson.raw_bson import RawBSONDocument

from docstore.bson import elements
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.sharding.ddl.operation import Kind
from mongod.ddl.coordinators import coordinators_of

_KINDS = {
    "createIndexes": Kind.CREATE_INDEXES,
    "dropIndexes": Kind.DROP_INDEXES,
    "collMod": Kind.COLL_MOD,
}


async def run(context: Context, arguments: Arguments) -> Result:
    name, _, _ = elements(arguments["request"])[0]
    command = context.services.table.get(name).name
    if command not in _KINDS:
        raise CommandError(Code.BadValue, f"{command} is not coordinated")
    request = {"request": RawBSONDocument(arguments["request"]), "epoch": arguments["epoch"]}
    return dict(await coordinators_of(context).run(context, _KINDS[command], arguments.value, request))


COMMAND = Command(
    "_shardsvrChangeCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
        Parameter("request", Type.OBJECT, required=True, internal=True),
    ),
    help="change the indexes or options of a sharded collection on all its shards",
)
