"""`find`: read documents of a collection, from the shards that may hold them.

A single shard's answer is passed on unchanged. Of several shards, each returns the documents that may be in the
result (its first skip+limit documents in order), and the router merges, skips and limits. With a sort, or by distance
from a point, the shards send whole documents, because a projection could remove the merge keys; the router projects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import bson
from bson.int64 import Int64

from docstore.aggregation.known_projections import known_projection
from docstore.bson import document_from, elements
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.view_stages import batch_size_on_view, find_stages, natural_sort
from docstore.commands.specs.reads import FIND
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.special_conditions import nearness
from docstore.query.filter.tree import Filter
from docstore.query.geo.distances import DistanceOrder
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import DocumentProjection
from docstore.query.sort import parse_sort
from docstore.sharding.routing import Routing
from mongos.merge.batches import FIRST_BATCH, batch_comes_last, cursor_reply, first_reply
from mongos.merge.joined import joined, plain_order
from mongos.merge.merged import MergedCursor, Order, Shape
from mongos.merge.opened import opened_reply
from mongos.merge.remote import batch_bytes
from mongos.merge.snapshot_reads import at_one_time
from mongos.merge.tails import open_tail
from mongos.relay.gathered import Gathering
from mongos.relay.relay import Relaying, relayed
from mongos.relay.targets import NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import query_context_of, statement_time
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.targeting import filter_shards
from mongos.routing.text_index import settle_text_search
from mongos.views import read_below


async def run(context: Context, args: Arguments) -> Result:
    """Return the first batch; the merged cursor holds the rest."""
    return await at_one_time(context, partial(_run, args=args))


async def _run(context: Context, args: Arguments) -> Result:
    async def attempt(routing: Routing) -> bytes:
        return await _find(context, args, routing)

    try:
        return await router_of(context).routed(context, attempt)
    except CommandError as error:
        if error.code != Code.CommandOnShardedViewNotSupportedOnMongod:
            raise
        return await read_below(
            context, error, find_stages(args), batch_size=batch_size_on_view(args), natural=natural_sort(args)
        )


async def _find(context: Context, args: Arguments, routing: Routing) -> bytes:
    router = router_of(context)
    query_context = query_context_of(context, args["let"], args["collation"])
    tree = parse_filter(args["filter"] or EMPTY_DOCUMENT, query_context=query_context)
    skip, limit = args["skip"], args["limit"]
    if routing.primary is None:
        empty: MergedCursor = MergedCursor([], Shape(), router.discard, scheduler=router.scheduler)
        return await first_reply(context, empty, batch_size=None, catalog=True)
    shards = filter_shards(routing, tree)
    if args["tailable"]:
        _check_tailable(args, routing)
        (answer,) = await router.ask(context, routing, shards, forwarded(context.raw))
        return await open_tail(context, answer)
    if args["awaitData"]:
        raise CommandError(Code.FailedToParse, "Cannot set 'awaitData' without also setting 'tailable'")
    merge = len(shards) > 1
    if merge:
        await settle_text_search(context, context.namespace, tree, shards[0])
    order = _order(args["sort"] or EMPTY_DOCUMENT, tree, query_context) if merge else None
    if order is not None and args["returnKey"]:
        raise CommandError(Code.NotImplemented, "keys of several shards hold no order: returnKey goes without a sort")
    spec = (args["projection"] if order is not None else None) or EMPTY_DOCUMENT
    projection = None if spec == EMPTY_DOCUMENT else parse_projection(spec, query_context=query_context, tree=tree)
    without = ["skip", "limit", "singleBatch"] if merge else ["singleBatch"]
    add = statement_time(query_context, context.raw)
    if merge and limit:
        add["limit"] = Int64(skip + limit)
    if merge:
        add["batchBytes"] = batch_bytes()
    if projection is not None:
        without.append("projection")
    body = forwarded(context.raw, without=without, add=add)
    unavailable = set[str]() if _may_be_partial(context, args) else None
    answers = await router.ask(context, routing, shards, body, unavailable=unavailable)
    partial_results = None if unavailable is None else bool(unavailable)
    if not merge:
        shape = Shape()
        if partial_results is None:
            return await open_cursor(context, args, answers[0])
    else:
        project = None if projection is None else _projecting(args, projection)
        shape = Shape(sort=order, skip=skip, limit=limit, project=project)
    return await _merged(context, args, shape, answers, partial_results=partial_results)


def _may_be_partial(context: Context, args: Arguments) -> bool:
    """True if the client accepts results without those of shards that cannot be reached; never in a transaction."""
    in_transaction = context.session is not None and context.session.transaction is not None
    return bool(args["allowPartialResults"]) and not in_transaction


async def _merged(
    context: Context, args: Arguments, shape: Shape, answers: Sequence[ShardReply], *,
    partial_results: bool | None = None,
) -> bytes:  # fmt: skip
    """Return the reply from the shards' answers; a cursor of this router reads the rest. `partial_results`: as in
    `MergedCursor`.
    """
    size = args["batchSize"]
    return await opened_reply(
        context, answers, shape, batch_size=size, asked_size=size or None, single_batch=args["singleBatch"],
        partial=partial_results,
    )  # fmt: skip


def _projecting(args: Arguments, projection: DocumentProjection) -> Callable[[bytes], bytes]:
    """Return the projection of a merged document. A record id that a shard has appended stays."""
    apply = projection.apply
    if not args["showRecordId"]:
        return apply

    def with_place(document: bytes) -> bytes:
        *fields, record_id = elements(document)
        return document_from([*elements(apply(document_from(fields))), record_id])

    return with_place


def _check_tailable(args: Arguments, routing: Routing) -> None:
    """Raise BadValue if the cursor cannot be tailable."""
    if routing.collection is not None:
        raise CommandError(Code.BadValue, "error processing query: tailable cursor requested on non capped collection")
    if args["singleBatch"]:
        raise CommandError(Code.BadValue, "cannot use tailable option with the 'singleBatch' option")


def _order(sort: bytes, tree: Filter, query_context: QueryContext) -> Order | None:
    """Return the merge order of the shards' documents; None for any order."""
    if sort != EMPTY_DOCUMENT:
        parsed = parse_sort(sort, query_context, tree)
        return parsed.pattern() if parsed else None
    near = nearness(tree)
    return None if near is None else DistanceOrder(near)


async def open_cursor(context: Context, args: Arguments, answer: ShardReply) -> bytes:
    """Return the reply to a find of one shard, with a cursor of this router for the rest."""
    size = args["batchSize"]
    return await opened_reply(
        context, [answer], batch_size=size, asked_size=size or None, single_batch=args["singleBatch"],
        catalog=batch_comes_last(answer.body),
    )  # fmt: skip


def _gather(context: Context, args: Arguments, targets: NamespaceTargets) -> Gathering | None:
    filter_ = args["filter"] or EMPTY_DOCUMENT
    batch = FIRST_BATCH if args["batchSize"] is None else args["batchSize"]
    shape = _plain_shape(args)
    shards = () if shape is None or not batch else targets.of_several(filter_, partial(query_context_of, context))
    if shape is None or not shards:
        return None
    without = [b"skip", b"limit", b"singleBatch"]
    if shape.project is not None:
        without.append(b"projection")
    add: dict[str, Any] = {"limit": Int64(shape.skip + shape.limit)} if shape.limit else {}
    add["batchBytes"] = batch_bytes()

    def join(replies: Sequence[bytes]) -> bytes | None:
        documents = joined(replies, shape, targets)
        if documents is None or (len(documents) >= batch and not 0 < shape.limit <= batch):
            return None
        return cursor_reply(documents, 0, context.namespace, "firstBatch")

    return Gathering(shards, join, partial(_merged, context, args, shape), frozenset(without), bson.encode(add)[4:-1])


def _plain_shape(args: Arguments) -> Shape | None:
    """Return the router's work on the merged documents; None if it depends on the filter or the request."""
    order = project = None
    if args["sort"]:
        if args["returnKey"]:
            # Who routes it says that it is refused.
            return None
        sort_order = plain_order(args["sort"])
        if sort_order is None:
            return None
        order = sort_order.pattern() if sort_order else None
    if order is not None and args["projection"]:
        projection = known_projection(args["projection"])
        if projection is None:
            return None
        project = _projecting(args, projection)
    return Shape(sort=order, skip=args["skip"], limit=args["limit"], project=project)


RELAYING = Relaying(
    lambda args, targets, language: targets.of_filter(args["filter"] or EMPTY_DOCUMENT, language),
    b"\x03cursor\0",
    aside=frozenset(("let", "collation", "tailable", "awaitData", "allowPartialResults")),
    counts="query",
    open_cursor=open_cursor,
    gather=_gather,
)

COMMAND = FIND.command(relayed(run, RELAYING))
