"""_recvChunkResolve: the donor tells the decision of a migration.

    {_recvChunkResolve: 1, migrationId, ns, decision: "committed" | "aborted"}

After `aborted` the received documents are deleted. Idempotent; also accepted for a migration that never began here.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Type
from docstore.commands.specs.cluster import internal_command
from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision
from mongod.migration.recipient_parameters import MIGRATION_ID, required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    try:
        decision = Decision(arguments["decision"])
    except ValueError:
        raise CommandError(Code.BadValue, f"'{arguments['decision']}' is no decision") from None
    await shard_of(context).recipient.resolve(Binary(arguments["migrationId"], 4), arguments["ns"], decision)
    return {}


COMMAND = internal_command(
    "_recvChunkResolve",
    run,
    parameters=(
        MIGRATION_ID,
        required("ns", Type.STRING),
        required("decision", Type.STRING),
    ),
    admin_only=True,
    help="how a migration to this shard ended",
)
