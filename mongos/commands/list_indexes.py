"""`listIndexes`: the indexes of a collection, as a shard that holds it has them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import LIST_INDEXES
from mongos.merge.opened import opened_reply
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.reading import carried_out
from mongos.relay.relay import FirstStep, routed
from mongos.relay.replies import CURSOR
from mongos.relay.targets import NamespaceTargets
from mongos.routing.broadcast import owners, require_database
from mongos.routing.requests import ShardReply
from mongos.routing.targeting import Target


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    return await carried_out(context, args, _prepare, begun)


def _prepare(context: Context, _args: Arguments, targets: NamespaceTargets) -> AskedRead:
    require_database(targets.routing)
    return AskedRead(target=Target((owners(targets.routing)[0],)), finish=partial(_opened, context))


async def _opened(context: Context, answers: Sequence[ShardReply]) -> bytes:
    """Return the reply to a shard's, whose cursor is read on by one of this router."""
    return await opened_reply(context, answers, batch_size=1000, catalog=True)


COMMAND = LIST_INDEXES.command(routed(run, FirstStep(_prepare, CURSOR)))
