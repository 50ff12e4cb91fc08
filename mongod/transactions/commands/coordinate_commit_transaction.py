"""coordinateCommitTransaction: see `docstore.sharding.commitment.coordinate_commit`."""

from __future__ import annotations

from docstore.bson import get_field
from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.commands.values import text_of, wrong_type
from docstore.errors import CommandError
from mongod.transactions.coordinators import coordinators_of

_FIELD = "coordinateCommitTransaction.participants.shardId"


async def run(context: Context, arguments: Arguments) -> Result:
    participants = [_shard(participant) for participant in arguments["participants"]]
    return await coordinators_of(context).coordinate(context, participants)


def _shard(participant: bytes) -> str:
    """Errors: Location40414, TypeMismatch."""
    value = get_field(participant, "shardId")
    if value is None:
        raise CommandError(40414, f"BSON field '{_FIELD}' is missing but a required field")
    if value[0] != STRING:
        raise wrong_type(_FIELD, value[0], "string")
    return text_of(value[1])


COMMAND = Command(
    "coordinateCommitTransaction", run, privilege=INTERNAL, role=Role.PRIMARY, admin_only=True,
    parameters=(Parameter("participants", Type.DOCUMENTS, required=True, internal=True),),
    help="commit a transaction on several shards",
)  # fmt: skip
