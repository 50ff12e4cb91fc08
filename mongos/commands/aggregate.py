"""`aggregate`: a pipeline over the cluster, as a cursor or into a collection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import bson

from docstore.aggregation.stages.write import target_of
from docstore.bson import document_from, encoded_fields
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.aggregate import check_explained, check_output_concern
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.sessions.transactions import check_stages
from docstore.commands.specs.reads import AGGREGATE
from docstore.errors import Code, CommandError
from docstore.kernel.match.form import form_of
from mongos.merge.aggregate_requests import request_of
from mongos.merge.batches import First, first_reply
from mongos.merge.change_stream import open_change_stream
from mongos.merge.explained import explain_pipeline
from mongos.merge.halves import halves_of
from mongos.merge.opened import Opening, merged_cursor
from mongos.merge.output import write_results
from mongos.merge.pipelines import SHARD_BATCH, merged_halves, open_pipeline
from mongos.merge.remote import batch_bytes
from mongos.merge.snapshot_reads import at_one_time
from mongos.relay.asked import AskedPipeline, Begun
from mongos.relay.pipelines import are_few, is_plain_cursor, leading_filter, read_beside
from mongos.relay.relay import FirstStep, routed
from mongos.relay.replies import CURSOR
from mongos.relay.targets import NamespaceTargets
from mongos.routing.query_context import names_time, query_context_of


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    if args["cursor"] is None and not args["explain"]:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    if args["explain"]:
        check_explained(args, has_write_concern=context.explicit_write_concern)
    return await at_one_time(context, partial(_run, args=args, begun=begun))


async def _run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    if context.session is not None and context.session.transaction is not None:
        check_stages(args["pipeline"])
    batch_size = batch_size_of(args)
    request = request_of(context, context.raw, args)
    context = context.about(request.namespace)
    if args["explain"]:
        return await explain_pipeline(context, request, "queryPlanner", context.raw)
    if request.pipeline.is_change_stream:
        return await open_change_stream(context, request, batch_size)
    if target_of(request.pipeline) is not None:
        check_output_concern(context)
        return await write_results(context, request)
    merged = await open_pipeline(context, request, begun)
    return await first_reply(context, merged, First(batch_size, namespace=context.view or context.namespace))


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> AskedPipeline | None:
    """Return the request to the shards, if the bytes of the stages say where they run and how they are split."""
    stages: Sequence[bytes] = args["pipeline"]
    cursor = args["cursor"]
    if not isinstance(args.value, str) or not is_plain_cursor(cursor) or names_time(context.raw):
        return None
    if not _PARSED_ONLY.isdisjoint(args.values):
        return None
    filter_ = leading_filter(stages)
    match, tail = ([], stages) if filter_ is None else (stages[:1], stages[1:])
    if not are_few(tail) or leading_filter(tail) is not None or form_of(filter_ or EMPTY_DOCUMENT) is None:
        # Two filters say where the documents are.
        return None
    names = read_beside(tuple(tail))
    if names is None:
        return None
    try:
        target = targets.of_filter(filter_ or EMPTY_DOCUMENT, partial(query_context_of, context))
    except CommandError:
        # The pipeline's first error is reported.
        return None
    if len(target.shards) == 1:
        routing_field = targets.beside(names, target.shards[0]) if names else b""
        if routing_field is None:
            return None
        opening = Opening(context, partial(merged_cursor, context), First(batch_size_of(args)))
        return AskedPipeline(target=target, merge=opening.at_hand, add=routing_field, opening=opening)
    halves = halves_of(tuple(tail), behind_match=bool(match))
    if halves is None:
        return None
    opening = Opening(context, partial(merged_halves, context, context.raw, halves), First(batch_size_of(args)))
    shard_cursor = _READ_HERE if halves.split.merge_stages else cursor
    extra_fields = encoded_fields(document_from([("cursor", OBJECT, shard_cursor)])) + _FROM_MONGOS + _batch_bytes()
    return AskedPipeline(
        target=target, merge=opening.at_hand, without=_REPLACED, add=halves.asked(match) + extra_fields, opening=opening
    )


_PARSED_ONLY = frozenset(("explain", "let", "collation"))
_READ_HERE = bson.encode({"batchSize": SHARD_BATCH})
_FROM_MONGOS = b"\x08fromMongos\0\x01"
_REPLACED = frozenset((b"pipeline", b"cursor"))


def _batch_bytes() -> bytes:
    return b"\x10batchBytes\0" + batch_bytes().to_bytes(4, "little")


COMMAND = AGGREGATE.command(routed(run, FirstStep(_prepare, CURSOR)))
