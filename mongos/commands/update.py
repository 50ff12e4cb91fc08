"""`update`: statements that name a shard key go to its owner, multi-updates to every shard that may hold a match."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import UPDATE
from mongos.relay.relay import Relaying, relayed
from mongos.statements import UPDATES, in_language, run_statements


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    kind = in_language(context, UPDATES, args["let"])
    return await run_statements(context, kind, context.documents("updates"), ordered=args["ordered"])


RELAYING = Relaying(
    lambda args, targets, language: targets.of_statements(args["updates"], language, UPDATES.size),
    b"\x10n\0",
    aside=frozenset(("let",)),
    statements="updates",
    counts="update",
)

COMMAND = UPDATE.command(relayed(run, RELAYING))
