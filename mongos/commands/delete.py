"""`delete`: statements that name a shard key go to its owner, others to every shard that may hold a match."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import DELETE
from mongos.relay.asked import Asked, Begun
from mongos.relay.relay import FirstStep, routed
from mongos.relay.targets import NamespaceTargets
from mongos.statements import DELETES, first_request, in_language, run_statements


async def run(context: Context, args: Arguments, begun: Begun | None) -> dict[str, Any]:
    statements = context.documents("deletes")
    return await run_statements(
        context, in_language(context, DELETES, args["let"]), statements, ordered=args["ordered"], begun=begun
    )


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> Asked | None:
    return first_request(context, DELETES, args["deletes"], targets, args["let"])


COMMAND = DELETE.command(routed(run, FirstStep(_prepare, b"\x10n\0", statements="deletes", counts="delete")))
