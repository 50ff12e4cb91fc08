"""`update`: statements that name a shard key go to its owner, multi-updates to every shard that may hold a match."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import UPDATE
from mongos.relay.asked import Asked, Begun
from mongos.relay.relay import FirstStep, routed
from mongos.relay.targets import NamespaceTargets
from mongos.statements import UPDATES, first_request, in_language, run_statements


async def run(context: Context, args: Arguments, begun: Begun | None) -> dict[str, Any]:
    statements = context.documents("updates")
    return await run_statements(
        context, in_language(context, UPDATES, args["let"]), statements, ordered=args["ordered"], begun=begun
    )


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> Asked | None:
    return first_request(context, UPDATES, args["updates"], targets, args["let"])


COMMAND = UPDATE.command(routed(run, FirstStep(_prepare, b"\x10n\0", statements="updates", counts="update")))
