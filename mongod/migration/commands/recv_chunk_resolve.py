"""_recvChunkResolve: the donor tells the decision of a migration.

    {_recvChunkResolve: 1, migrationId, ns, decision: "committed" | "aborted"}

After `aborted` the received documents are deleted. Idempotent; also accepted for a migration that never began here.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    try:
        decision = Decision(arguments["decision"])
    except ValueError:
        raise CommandError(Code.BadValue, f"'{arguments['decision']}' is no decision") from None
    await shard_of(context).recipient.resolve(Binary(arguments["migrationId"], 4), arguments["ns"], decision)
    return {}


COMMAND = Command(
    "_recvChunkResolve",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    admin_only=True,
    parameters=(
        Parameter("migrationId", Type.UUID, required=True, internal=True),
        Parameter("ns", Type.STRING, required=True, internal=True),
        Parameter("decision", Type.STRING, required=True, internal=True),
    ),
    help="how a migration to this shard ended",
)
