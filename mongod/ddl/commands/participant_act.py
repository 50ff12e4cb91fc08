"""_shardsvrParticipantAct: see `docstore.sharding.ddl.requests.act`."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.sharding.ddl.operation import Operation
from mongod.ddl.participant import participant_of


async def run(context: Context, arguments: Arguments) -> Result:
    return await participant_of(context).act(context, Operation.from_raw(arguments["document"]))


COMMAND = Command(
    "_shardsvrParticipantAct",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    parameters=(Parameter("document", Type.OBJECT, required=True, internal=True),),
    help="do what a DDL operation asks of this shard",
)
