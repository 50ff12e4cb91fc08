"""Operations in progress on this node, for currentOp and the `$currentOp` stage."""

from __future__ import annotations

from typing import Any

from docstore.commands.context import Context
from docstore.commands.operation_report import describe
from docstore.node.node import node_of


def in_progress(context: Context) -> list[dict[str, Any]]:
    """All operations, the asking one last."""
    node = node_of(context)
    own = context.operation
    others = [operation for operation in context.services.operations if operation is not own]
    return [describe(operation, host=node.settings.address, now=node.clock()) for operation in (*others, own)]
