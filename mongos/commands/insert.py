"""`insert`: each document to the shard that owns its key; a database is created by its first document."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import INSERT
from mongos.relay.relay import Relaying, relayed
from mongos.statements import INSERTS, run_statements


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    return await run_statements(context, INSERTS, context.documents("documents"), ordered=args["ordered"])


RELAYING = Relaying(
    lambda args, targets, _language: targets.of_documents(args["documents"]),
    b"\x10n\0",
    statements="documents",
    counts="insert",
)

COMMAND = INSERT.command(relayed(run, RELAYING))
