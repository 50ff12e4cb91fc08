"""`insert`: each document to the shard that owns its key; a database is created by its first document."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import INSERT
from mongos.relay.asked import Asked, Begun
from mongos.relay.relay import FirstStep, routed
from mongos.relay.targets import NamespaceTargets
from mongos.statements import INSERTS, first_request, run_statements


async def run(context: Context, args: Arguments, begun: Begun | None) -> dict[str, Any]:
    statements = context.documents("documents")
    return await run_statements(context, INSERTS, statements, ordered=args["ordered"], begun=begun)


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> Asked | None:
    return first_request(context, INSERTS, args["documents"], targets)


COMMAND = INSERT.command(routed(run, FirstStep(_prepare, b"\x10n\0", statements="documents", counts="insert")))
