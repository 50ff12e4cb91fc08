"""_shardsvrRenameCollection: see `docstore.sharding.ddl.requests.rename_collection`."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.ddl.operation import Kind
from mongod.ddl.coordinators import coordinators_of


async def run(context: Context, arguments: Arguments) -> Result:
    body = document_to_python(context.raw)
    request = {
        "source": arguments.value, "to": arguments["to"], "dropTarget": arguments["dropTarget"],
        "uuid": body.get("uuid"), "sourceVersion": body["sourceVersion"], "targetVersion": body["targetVersion"],
    }  # fmt: skip
    database = split_namespace(arguments.value)[0]
    if split_namespace(arguments["to"])[0] != database:
        raise CommandError(Code.CommandFailed, "Source and destination collections must be on same database")
    return dict(await coordinators_of(context).run(context, Kind.RENAME_COLLECTION, database, request))


COMMAND = Command(
    "_shardsvrRenameCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("to", Type.NAMESPACE, required=True, internal=True),
        Parameter("dropTarget", Type.BOOL, default=False, internal=True),
        Parameter("uuid", Type.ANY, internal=True),
        Parameter("sourceVersion", Type.OBJECT, required=True, internal=True),
        Parameter("targetVersion", Type.OBJECT, required=True, internal=True),
    ),
    help="rename a collection where one of the names is sharded",
)
