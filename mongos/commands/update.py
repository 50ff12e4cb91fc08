"""`update`: statements that name a shard key go to its owner, multi-updates to every shard that may hold a match."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from docstore.bson import get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import UPDATE
from mongos.relay.relay import Relaying, relayed
from mongos.routing.query_context import query_context_of
from mongos.routing.targeting import update_target
from mongos.routing.writes import Kind
from mongos.statements import run_statements


def written_size(statement: bytes) -> int:
    """What an update adds to its chunk, at most about: the size of what it writes."""
    update = get_field(statement, "u")
    return 0 if update is None else len(update[1])


KIND = Kind("updates", update_target, written_size)


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    query_context = query_context_of(context, args["let"])
    kind = replace(KIND, target=partial(update_target, query_context=query_context))
    return await run_statements(context, kind, context.documents("updates"), ordered=args["ordered"])


RELAYING = Relaying(
    lambda args, targets, language: targets.of_statements(args["updates"], language, KIND.size),
    b"\x10n\0",
    aside=frozenset(("let",)),
    statements="updates",
)

COMMAND = UPDATE.command(relayed(run, RELAYING))
