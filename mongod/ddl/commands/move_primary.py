"""_shardsvrMovePrimary: see `docstore.sharding.ddl.requests.move_primary`."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.sharding.ddl.operation import Kind
from docstore.sharding.version import DatabaseVersion
from mongod.ddl.coordinators import coordinators_of


async def run(context: Context, arguments: Arguments) -> Result:
    version = DatabaseVersion.from_document(document_to_python(arguments["databaseVersion"]))
    request = {"databaseVersion": version.to_document(), "to": arguments["to"]}
    return dict(await coordinators_of(context).run(context, Kind.MOVE_PRIMARY, arguments.value, request))


COMMAND = Command(
    "_shardsvrMovePrimary",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    parameters=(
        Parameter("databaseVersion", Type.OBJECT, required=True, internal=True),
        Parameter("to", Type.STRING, required=True, internal=True),
    ),
    help="make another shard the primary of a database",
)
