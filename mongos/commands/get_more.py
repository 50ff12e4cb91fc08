"""`getMore`: the next batch of a cursor that this router opened."""

from __future__ import annotations

from functools import partial

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.reads import GET_MORE
from docstore.js import script_thread
from docstore.query.scripts import ScriptsWanted
from mongos.merge.batches import next_reply
from mongos.merge.change_stream import RoutedStream, next_stream_reply
from mongos.merge.relayed_cursor import relayed_batch
from mongos.merge.tails import RelayedTail, next_tail_reply
from mongos.router import router_of


def run(context: Context, args: Arguments) -> Response:
    router_of(context).counters.getmore += 1
    routed = partial(_run, context, args)
    return relayed_batch(context, args["collection"], routed) or routed()


async def _run(context: Context, args: Arguments) -> bytes:
    namespace = f"{context.db}.{args['collection']}"
    session = context.session
    lsid, transaction = (None, None) if session is None else (session.lsid, session.transaction)
    cursor = context.services.cursors.checkout(args.value, namespace, lsid, transaction, context.owner)
    if cursor.apart and script_thread.current() is None:
        cursor.pinned = False
        raise ScriptsWanted
    if isinstance(cursor.source, RoutedStream):
        return await next_stream_reply(context, cursor, args["batchSize"])
    if isinstance(cursor.source, RelayedTail):
        return await next_tail_reply(context, cursor, args["batchSize"])
    if context.raw_field("maxTimeMS") is not None:
        raise context.services.cursors.refuse_await_limit(cursor)
    return await next_reply(context, cursor, args["batchSize"])


COMMAND = GET_MORE.command(run)
