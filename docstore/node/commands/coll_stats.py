"""collStats: return counts and sizes of one collection."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import COLL_STATS
from docstore.node.entry import enter_read
from docstore.node.node import node_of
from docstore.node.slices import finish_steps
from docstore.node.upkeep.collection_stats import namespace_stats


async def run(context: Context, arguments: Arguments) -> Result:
    await finish_steps(context, enter_read(context))
    return {"ns": context.namespace, **namespace_stats(node_of(context), context.namespace, arguments["scale"])}


COMMAND = COLL_STATS.command(run)
