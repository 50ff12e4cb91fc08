"""_recvChunkStatements: a donor tells which retryable writes it has executed; see `mongod.migration.session_history`.

    {_recvChunkStatements: 1, migrationId, number: long, statements: [{lsid, txnNumber, stmtId, op, ...}, ...]}

Numbered together with `_recvChunkDocuments`.
"""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Type
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.recipient_messages import TakeStatements
from mongod.migration.recipient_parameters import MIGRATION_ID, NUMBER, required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    identity, number, statements = (arguments[name] for name in ("migrationId", "number", "statements"))
    await shard_of(context).recipient.take(
        lambda token: TakeStatements(token=token, id=identity, number=number, statements=statements)
    )
    return {}


COMMAND = internal_command(
    "_recvChunkStatements",
    run,
    parameters=(
        MIGRATION_ID,
        NUMBER,
        required("statements", Type.DOCUMENTS),
    ),
    admin_only=True,
    help="remember retryable writes of a chunk that comes to this shard",
)
