"""`find`: read documents of a collection, from the shards that may hold them.

A single shard's answer is passed on unchanged. Of several shards, each returns the documents that may be in the
result (its first skip+limit documents in order), and the router merges, skips and limits. With a sort, or by distance
from a point, the shards send whole documents, because a projection could remove the merge keys; the router projects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
from docstore.kernel.match.form import form_of
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.special_conditions import nearness, special_condition
from docstore.query.filter.tree import MATCH_ALL, Filter, TextSearch
from docstore.query.geo.distances import DistanceOrder
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import DocumentProjection
from docstore.query.sort import parse_sort
from docstore.sharding.routing import Routing
from mongos.merge.batches import First, first_reply
from mongos.merge.known_orders import known_order
from mongos.merge.merged import MergedCursor, Order, Shape
from mongos.merge.opened import Opening, merged_cursor
from mongos.merge.remote import batch_bytes
from mongos.merge.snapshot_reads import at_one_time
from mongos.merge.tails import open_tail
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.reading import carried_out
from mongos.relay.relay import FirstStep, routed
from mongos.relay.replies import CURSOR
from mongos.relay.targets import Language, NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import names_time, query_context_of, statement_time
from mongos.routing.requests import ShardReply, fields_of
from mongos.routing.text_index import settle_text_search
from mongos.views import read_below


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    """Return the first batch; the merged cursor holds the rest."""
    return await at_one_time(context, partial(_run, args=args, begun=begun))


async def _run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    try:
        return await carried_out(context, args, _prepare, begun)
    except CommandError as error:
        if error.code != Code.CommandOnShardedViewNotSupportedOnMongod:
            raise
        return await read_below(
            context, error, find_stages(args), batch_size=batch_size_on_view(args), natural=natural_sort(args)
        )


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> AskedRead:
    filter_ = args["filter"] or EMPTY_DOCUMENT
    language = partial(query_context_of, context, args["let"], args["collation"])
    plain = args["let"] is None and args["collation"] is None
    target = targets.of_filter(filter_, language, plain=plain)
    if not target.shards:
        return AskedRead(target=target, finish=partial(_nothing, context))
    if args["tailable"]:
        _check_tailable(args, targets.routing)
    elif args["awaitData"]:
        raise CommandError(Code.FailedToParse, "Cannot set 'awaitData' without also setting 'tailable'")
    unavailable = set[str]() if _may_be_partial(context, args) else None
    add: dict[str, Any] = statement_time(language(), context.raw) if names_time(context.raw) else {}
    if args["tailable"]:
        return AskedRead(target=target, finish=partial(_tail, context), add=fields_of(add))
    if len(target.shards) == 1:
        opening = Opening(
            context,
            partial(_merged, context, args, Shape(), unavailable),
            First(args["batchSize"], args["singleBatch"]),
        )
        return AskedRead(
            target=target, merge=opening.at_hand, finish=opening.reply, add=fields_of(add), unavailable=unavailable
        )
    is_formed = plain and form_of(filter_) is not None
    tree = None if is_formed else parse_filter(filter_, query_context=language())
    shape = _shape(args, tree, language, plain=plain)
    if shape.limit:
        add["limit"] = Int64(shape.skip + shape.limit)
    add["batchBytes"] = batch_bytes()
    opening = Opening(
        context, partial(_merged, context, args, shape, unavailable), First(args["batchSize"], args["singleBatch"])
    )
    asked = AskedRead(
        target=target, merge=opening.at_hand, finish=opening.reply, unavailable=unavailable, add=fields_of(add),
        without=_MERGED_HERE if shape.project is None else _MERGED_HERE | {b"projection"},
    )  # fmt: skip
    if tree is not None and isinstance(special_condition(tree), TextSearch):
        asked.merge, asked.finish = None, partial(_scored, context, tree, opening)
    return asked


async def _scored(context: Context, tree: Filter, opening: Opening, answers: Sequence[ShardReply]) -> bytes:
    """Return the reply to a text search of several shards, whose scores are calculated here too."""
    try:
        await settle_text_search(context, context.namespace, tree, answers[0].shard)
    except BaseException:
        router_of(context).leftovers.discard_answers(answers)
        raise
    return await opening.reply(answers)


def _shape(args: Arguments, tree: Filter | None, language: Language, *, plain: bool) -> Shape:
    """Return the router's work on the documents of several shards. `tree`: None for a filter without a search."""
    sort, spec = args["sort"] or EMPTY_DOCUMENT, args["projection"] or EMPTY_DOCUMENT
    order: Order | None = None
    if sort != EMPTY_DOCUMENT:
        parsed = known_order(sort) if plain else None
        if parsed is None:
            parsed = parse_sort(sort, language(), tree or MATCH_ALL)
        order = parsed.pattern() if parsed else None
    elif tree is not None:
        near = nearness(tree)
        order = None if near is None else DistanceOrder(near)
    project: Callable[[bytes], bytes] | None = None
    if order is not None:
        if args["returnKey"]:
            raise CommandError(
                Code.NotImplemented, "keys of several shards hold no order: returnKey goes without a sort"
            )
        projection: DocumentProjection | None = known_projection(spec) if plain and spec != EMPTY_DOCUMENT else None
        if projection is None and spec != EMPTY_DOCUMENT:
            tree = parse_filter(args["filter"] or EMPTY_DOCUMENT, query_context=language()) if tree is None else tree
            projection = parse_projection(spec, query_context=language(), tree=tree)
        project = None if projection is None else _projecting(args, projection)
    return Shape(sort=order, skip=args["skip"], limit=args["limit"], project=project)


async def _nothing(context: Context, answers: Sequence[ShardReply]) -> bytes:
    return await first_reply(context, merged_cursor(context, answers), First(catalog=True))


async def _tail(context: Context, answers: Sequence[ShardReply]) -> bytes:
    return await open_tail(context, answers[0])


def _may_be_partial(context: Context, args: Arguments) -> bool:
    """True if the client accepts results without those of shards that cannot be reached; never in a transaction."""
    in_transaction = context.session is not None and context.session.transaction is not None
    return bool(args["allowPartialResults"]) and not in_transaction


def _merged(
    context: Context, args: Arguments, shape: Shape, unavailable: set[str] | None, answers: Sequence[ShardReply]
) -> MergedCursor:
    missing = None if unavailable is None else bool(unavailable)
    return merged_cursor(context, answers, shape, asked_size=args["batchSize"] or None, partial=missing)


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


_MERGED_HERE = frozenset((b"skip", b"limit", b"singleBatch"))

COMMAND = FIND.command(routed(run, FirstStep(_prepare, CURSOR, counts="query")))
