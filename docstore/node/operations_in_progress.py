"""Operations in progress on this node, for currentOp and the `$currentOp` stage."""

from __future__ import annotations

from typing import Any

from docstore.commands.context import Context
from docstore.commands.operation_report import describe, describe_connection, describe_cursor
from docstore.node.node import node_of


def in_progress(context: Context, *, connections: bool = False, cursors: bool = False) -> list[dict[str, Any]]:
    """All operations, the asking one last; if wanted also the connections and the cursors that are idle."""
    host, services = node_of(context).settings.address, context.services
    own = context.operation
    others = [operation for operation in services.operations if operation is not own]
    found = [describe(operation, host=host, services=services) for operation in (*others, own)]
    if connections:
        busy = {operation.context.connection for operation in services.operations}
        idle = sorted(services.peers - busy, key=lambda peer: peer.id)
        found += [describe_connection(peer, host=host, services=services) for peer in idle]
    if cursors:
        found += [
            describe_cursor(cursor, host=host, services=services) for cursor in services.cursors if not cursor.pinned
        ]
    return found
