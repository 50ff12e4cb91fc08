"""Operations in progress on this node, for currentOp and the `$currentOp` stage."""

from __future__ import annotations

from typing import Any

from docstore.commands.context import Context
from docstore.commands.operations import report
from docstore.node.node import node_of


def in_progress(
    context: Context,
    *,
    connections: bool = False,
    cursors: bool = False,
    sessions: bool = True,
    own: bool = False,
    shorten: bool = False,
) -> list[dict[str, Any]]:
    """Return all operations, the requesting one last; optionally idle connections, cursors and transactions too.

    `own`: only those of the requesting user. `shorten`: long commands are shown by the beginning of their text.
    """
    return report.in_progress(
        context.services,
        context.operation,
        host=node_of(context).settings.address,
        connections=connections,
        cursors=cursors,
        sessions=sessions,
        owner=context.owner if own else None,
        shorten=shorten,
    )
