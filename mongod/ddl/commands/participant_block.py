"""_shardsvrParticipantBlock: see `docstore.sharding.ddl.requests.hold` and `docstore.sharding.ddl.requests.release`."""

from __future__ import annotations

from bson.binary import Binary

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.sharding.ddl.operation import Blocks
from mongod.ddl.participant import participant_of


async def run(context: Context, arguments: Arguments) -> Result:
    participant = participant_of(context)
    change = participant.release if arguments["release"] else participant.hold
    await change(Binary(arguments["operation"], 4), arguments.value, Blocks(arguments["blocks"]))
    return {}


COMMAND = Command(
    "_shardsvrParticipantBlock",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    parameters=(
        Parameter("operation", Type.UUID, required=True, internal=True),
        Parameter("blocks", Type.STRING, required=True, internal=True),
        Parameter("release", Type.BOOL, required=True, internal=True),
    ),
    help="keep a namespace for a DDL operation, or let it go",
)
