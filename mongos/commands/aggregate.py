"""`aggregate`: a pipeline over the cluster, as a cursor or into a collection."""

from __future__ import annotations

from functools import partial

from docstore.bson import get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.aggregate import check_output_concern
from docstore.commands.sessions.transactions import check_stages
from docstore.commands.specs.reads import AGGREGATE
from docstore.commands.values import integer_of
from docstore.errors import Code, CommandError
from mongos.merge.aggregate_requests import request_of
from mongos.merge.batches import first_reply
from mongos.merge.change_stream import open_change_stream
from mongos.merge.explained import explain_pipeline
from mongos.merge.opened import opened_reply
from mongos.merge.output import write_results
from mongos.merge.pipelines import open_pipeline
from mongos.merge.snapshot_reads import at_one_time
from mongos.relay.pipelines import of_pipeline
from mongos.relay.relay import Relaying, relayed
from mongos.routing.requests import ShardReply


async def run(context: Context, args: Arguments) -> Result:
    if args["cursor"] is None and not args["explain"]:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    return await at_one_time(context, partial(_run, args=args))


async def _run(context: Context, args: Arguments) -> Result:
    if context.session is not None and context.session.transaction is not None:
        check_stages(args["pipeline"])
    request = request_of(context, context.raw, args)
    context = context.about(request.namespace)
    if args["explain"]:
        return await explain_pipeline(context, request, "queryPlanner", context.raw)
    batch_size = _batch_size(args["cursor"])
    if request.pipeline.is_change_stream:
        return await open_change_stream(context, request, batch_size)
    if request.pipeline.target is not None:
        check_output_concern(context)
        return await write_results(context, request)
    merged = await open_pipeline(context, request)
    return await first_reply(context, merged, batch_size=batch_size, namespace=context.view or context.namespace)


def _batch_size(cursor: bytes) -> int | None:
    found = get_field(cursor, "batchSize")
    if found is None:
        return None
    size = integer_of(*found)
    if size < 0:
        raise CommandError(Code.BadValue, "cursor.batchSize must not be negative")
    return size


async def open_cursor(context: Context, args: Arguments, answer: ShardReply) -> bytes:
    """The reply to a pipeline of one shard, whose cursor is read on by one of this router."""
    return await opened_reply(context, [answer], batch_size=_batch_size(args["cursor"]))


RELAYING = Relaying(
    of_pipeline,
    b"\x03cursor\0",
    aside=frozenset(("explain", "let", "collation")),
    open_cursor=open_cursor,
)

COMMAND = AGGREGATE.command(relayed(run, RELAYING))
