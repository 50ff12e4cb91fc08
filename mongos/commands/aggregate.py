"""`aggregate`: a pipeline over the cluster, as a cursor or into a collection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import bson

from docstore.aggregation.stages.write import target_of
from docstore.bson import document_from, encoded_fields, get_field
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.aggregate import check_explained_concern, check_output_concern
from docstore.commands.sessions.transactions import check_stages
from docstore.commands.specs.reads import AGGREGATE
from docstore.commands.values import integer_of
from docstore.errors import Code, CommandError
from mongos.merge.aggregate_requests import request_of
from mongos.merge.batches import FIRST_BATCH, cursor_reply, first_reply
from mongos.merge.change_stream import open_change_stream
from mongos.merge.explained import explain_pipeline
from mongos.merge.halves import halves_of
from mongos.merge.opened import opened_reply
from mongos.merge.output import write_results
from mongos.merge.pipelines import SHARD_BATCH, merged_results, open_pipeline
from mongos.merge.remote import batch_bytes
from mongos.merge.snapshot_reads import at_one_time
from mongos.relay.gathered import Gathering
from mongos.relay.pipelines import are_few, is_plain_cursor, leading_filter, of_pipeline
from mongos.relay.relay import Relaying, relayed
from mongos.relay.targets import NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.requests import ShardReply


async def run(context: Context, args: Arguments) -> Result:
    if args["cursor"] is None and not args["explain"]:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    if args["explain"]:
        check_explained_concern(has_write_concern=context.explicit_write_concern)
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
    if target_of(request.pipeline) is not None:
        check_output_concern(context)
        return await write_results(context, request)
    merged = await open_pipeline(context, request)
    return await first_reply(context, merged, batch_size=batch_size, namespace=context.view or context.namespace)


def _batch_size(cursor: bytes) -> int | None:
    value = get_field(cursor, "batchSize")
    if value is None:
        return None
    size = integer_of(*value)
    if size < 0:
        raise CommandError(Code.BadValue, "cursor.batchSize must not be negative")
    return size


async def open_cursor(context: Context, args: Arguments, answer: ShardReply) -> bytes:
    """The reply to a pipeline of one shard, whose cursor is read on by one of this router."""
    return await opened_reply(context, [answer], batch_size=_batch_size(args["cursor"]))


def _gather(context: Context, args: Arguments, targets: NamespaceTargets) -> Gathering | None:
    stages: Sequence[bytes] = args["pipeline"]
    cursor = args["cursor"]
    filter_ = leading_filter(stages)
    match, tail = ([], stages) if filter_ is None else (stages[:1], stages[1:])
    if not isinstance(args.value, str) or not are_few(tail) or not is_plain_cursor(cursor):
        return None
    batch_size = _batch_size(cursor)
    if batch_size == 0 or leading_filter(tail) is not None:
        # Two filters say where the documents are.
        return None
    shards = targets.of_several(filter_ or EMPTY_DOCUMENT, partial(query_context_of, context))
    if not shards:
        return None
    halves = halves_of(tuple(tail), behind_match=bool(match))
    if halves is None:
        return None
    clock = router_of(context).clock
    batch = FIRST_BATCH if batch_size is None else batch_size

    def join(replies: Sequence[bytes]) -> bytes | None:
        documents = halves.joined(replies, targets, batch, clock)
        return None if documents is None else cursor_reply(documents, 0, context.namespace, "firstBatch")

    async def rest(answers: Sequence[ShardReply]) -> Result:
        request = request_of(context, context.raw, args)
        merged = await merged_results(context, request, halves.split, answers)
        return await first_reply(context, merged, batch_size=batch_size)

    shard_cursor = _READ_HERE if halves.split.merge_stages else cursor
    extra_fields = encoded_fields(document_from([("cursor", OBJECT, shard_cursor)])) + _FROM_MONGOS + _batch_bytes()
    return Gathering(shards, join, rest, _REPLACED, halves.asked(match) + extra_fields)


_READ_HERE = bson.encode({"batchSize": SHARD_BATCH})
_FROM_MONGOS = b"\x08fromMongos\0\x01"
_REPLACED = frozenset((b"pipeline", b"cursor"))


def _batch_bytes() -> bytes:
    return b"\x10batchBytes\0" + batch_bytes().to_bytes(4, "little")


RELAYING = Relaying(
    of_pipeline,
    b"\x03cursor\0",
    aside=frozenset(("explain", "let", "collation")),
    open_cursor=open_cursor,
    gather=_gather,
)

COMMAND = AGGREGATE.command(relayed(run, RELAYING))
