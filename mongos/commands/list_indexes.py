"""`listIndexes`: the indexes of a collection, as a shard that holds it has them."""

from __future__ import annotations

from functools import partial

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import LIST_INDEXES
from mongos.merge.batches import First
from mongos.merge.opened import Opening, merged_cursor
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.reading import carried_out
from mongos.relay.relay import FirstStep, routed
from mongos.relay.replies import CURSOR
from mongos.relay.targets import NamespaceTargets
from mongos.routing.broadcast import owners, require_database
from mongos.routing.targeting import Target


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    return await carried_out(context, args, _prepare, begun)


def _prepare(context: Context, _args: Arguments, targets: NamespaceTargets) -> AskedRead:
    require_database(targets.routing)
    opening = Opening(context, partial(merged_cursor, context), First(1000, catalog=True))
    target = Target((owners(targets.routing)[0],))
    return AskedRead(target=target, merge=opening.at_hand, finish=opening.reply)


COMMAND = LIST_INDEXES.command(routed(run, FirstStep(_prepare, CURSOR)))
