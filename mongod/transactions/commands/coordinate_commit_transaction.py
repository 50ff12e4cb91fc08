"""coordinateCommitTransaction: see `docstore.sharding.commitment.coordinate_commit`."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from mongod.transactions.coordinators import coordinators_of


async def run(context: Context, arguments: Arguments) -> Result:
    participants = [str(document_to_python(each)["shardId"]) for each in arguments["participants"]]
    return await coordinators_of(context).coordinate(context, participants)


COMMAND = Command(
    "coordinateCommitTransaction", run, privilege=INTERNAL, role=Role.PRIMARY, admin_only=True,
    parameters=(Parameter("participants", Type.DOCUMENTS, required=True, internal=True),),
    help="commit a transaction on several shards",
)  # fmt: skip
