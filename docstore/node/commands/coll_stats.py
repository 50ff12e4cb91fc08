"""collStats: counts and sizes of one collection."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import COLL_STATS
from docstore.node.node import node_of
from docstore.node.upkeep.collection_stats import namespace_stats


def run(context: Context, arguments: Arguments) -> Result:
    return {"ns": context.namespace, **namespace_stats(node_of(context), context.namespace, arguments["scale"])}


COMMAND = COLL_STATS.command(run)
