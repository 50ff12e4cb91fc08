"""`delete`: statements that name a shard key go to its owner, others to every shard that may hold a match."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import DELETE
from mongos.relay.relay import Relaying, relayed
from mongos.statements import DELETES, in_language, run_statements


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    kind = in_language(context, DELETES, args["let"])
    return await run_statements(context, kind, context.documents("deletes"), ordered=args["ordered"])


RELAYING = Relaying(
    lambda args, targets, language: targets.of_statements(args["deletes"], language, DELETES.size),
    b"\x10n\0",
    aside=frozenset(("let",)),
    statements="deletes",
    counts="delete",
)

COMMAND = DELETE.command(relayed(run, RELAYING))
