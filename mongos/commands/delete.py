"""`delete`: statements that name a shard key go to its owner, others to every shard that may hold a match."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import DELETE
from mongos.relay.relay import Relaying, relayed
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.targeting import delete_target
from mongos.routing.writes import Kind
from mongos.statements import run_statements

KIND = Kind("deletes", delete_target, lambda statement: 0)


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    if (await router_of(context).cache.get(context.namespace)).primary is None:
        return {"n": 0}
    query_context = query_context_of(context, args["let"])
    kind = replace(KIND, target=partial(delete_target, query_context=query_context))
    return await run_statements(context, kind, context.documents("deletes"), ordered=args["ordered"])


RELAYING = Relaying(
    lambda args, targets, language: targets.of_statements(args["deletes"], language, KIND.size),
    b"\x10n\0",
    aside=frozenset(("let",)),
    statements="deletes",
)

COMMAND = DELETE.command(relayed(run, RELAYING))
