"""connPoolStats: return statistics of the connections from this process to others."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import CONN_POOL_STATS
from docstore.net.pool import connections_document
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    return connections_document(node_of(context).links())


COMMAND = CONN_POOL_STATS.command(run)
