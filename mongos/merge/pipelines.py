"""Pipelines over the cluster: the shards' half over their own documents, the router's half over all results.

A pipeline that one shard alone can answer is passed on unchanged. That includes pipelines over several unsharded
collections, which are all on the primary shard of their database. Otherwise stages that read other collections run
here, and their reads are pipelines of this kind again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import random
from types import MappingProxyType
from typing import Any, TypeVar

import bson
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.parse import over_view, parse_pipeline, parse_written
from docstore.aggregation.split import SplitPipeline, split_pipeline
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.stages.sources import ProcessDocuments
from docstore.aggregation.streams import Feed, Stream
from docstore.bson import Value, document_from, elements, get_field
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT
from docstore.buffers import OperationBuffers
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.query.value.collation import SIMPLE, Collation, parse_collation
from docstore.query.value.values import is_true, string_value
from docstore.sharding.routing import Routing
from docstore.spill import SpillFile
from mongos.merge.beside import Beside, read_beside
from mongos.merge.halves import Halves
from mongos.merge.merged import Finish, MergedCursor, Shape
from mongos.merge.opened import merged_cursor
from mongos.merge.process_stages import asked_of_all, over_all, own_documents, shard_stages
from mongos.merge.remote import batch_bytes
from mongos.relay.asked import AskedPipeline, Begun
from mongos.router import router_of
from mongos.routing.cache import Attempt, version_for
from mongos.routing.query_context import statement_time
from mongos.routing.requests import ShardReply, cursor_of, forwarded, versioned
from mongos.routing.scatter import Scatter
from mongos.routing.shards import Failure
from mongos.routing.targeting import filter_shards, primary_of
from mongos.routing.text_index import settle_text_search

T = TypeVar("T")

SHARD_BATCH = 10_000
"""The documents per batch of a shard, at first, for stages that run here."""
_FOREIGN_DOCUMENTS = 2000


@dataclass(frozen=True, slots=True)
class Request:
    """The request to the shards: an aggregate's fields except pipeline and cursor, the namespace, and the stages."""

    base: bytes
    namespace: str
    pipeline: Pipeline

    def body(
        self,
        stages: list[bytes],
        cursor: Mapping[str, Any] | RawBSONDocument,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> bytes:
        pipeline = [RawBSONDocument(stage) for stage in stages]
        let = get_field(self.base, "let")
        time = statement_time(self.pipeline.query_context, *stages, *(() if let is None else (let[1],)))
        add = {"pipeline": pipeline, "cursor": cursor, "fromMongos": True, **time, **more}
        return forwarded(self.base, without=("explain",), add=add)


async def open_pipeline(context: Context, request: Request, begun: Begun | None = None) -> MergedCursor:
    """Return the merged results of a pipeline, whose first attempt may have begun."""
    first = None if begun is None else Attempt(begun.targets.routing, partial(_continued, context, request, begun))
    return await routed_pipeline(context, request, partial(_opened, context), first)


async def routed_pipeline(
    context: Context, request: Request, attempt: Callable[[Request, Routing], Coroutine[Any, Any, T]],
    first: Attempt[T] | None = None,
) -> T:  # fmt: skip
    """Return the result of `attempt` for the request; for a view, of the request on its source. `first`: the first
    attempt, which has begun.
    """
    try:
        return await router_of(context).cache.routed(request.namespace, partial(attempt, request), first)
    except CommandError as error:
        view = error.extra.get("resolvedView")
        if error.code != Code.CommandOnShardedViewNotSupportedOnMongod or view is None:
            raise
    return await routed_pipeline(context, _below(request, view), attempt)


def _below(request: Request, view: Mapping[str, Any]) -> Request:
    """Rewrite a request on a view to its source. Errors: OptionNotSupportedOnView for another collation."""
    rules = bson.encode(view["collation"])
    pipeline = request.pipeline
    query_context = replace(pipeline.query_context, collation=parse_collation(rules))
    if query_context.collation != pipeline.query_context.collation:
        collation = get_field(request.base, "collation")
        if collation is not None and collation[1] != EMPTY_DOCUMENT:
            raise CommandError(
                Code.OptionNotSupportedOnView,
                f"Cannot override the default collation of the view {request.namespace}",
            )
        pipeline = parse_written([stage.raw for stage in pipeline.stages], query_context)
    below = parse_pipeline([bson.encode(stage) for stage in view["pipeline"]], query_context=query_context)
    collection = view["ns"].partition(".")[2]
    fields = [field for field in elements(request.base) if field[0] not in ("aggregate", "collation")]
    base = document_from([("aggregate", *string_value(collection)), *fields, ("collation", OBJECT, rules)])
    return Request(base, view["ns"], over_view(pipeline, below))


async def _opened(context: Context, request: Request, routing: Routing) -> MergedCursor:
    router = router_of(context)
    pipeline = request.pipeline
    first = asked_of_all(context, pipeline)
    if first is not None:
        return await _of_all_shards(context, request, first)
    if not pipeline.needs_collection or routing.primary is None:
        # Nothing is read, or the collection does not exist: other collections are read from here.
        return MergedCursor(
            [],
            Shape(),
            router.discard,
            scheduler=router.scheduler,
            finish=_finish(context, request.base, pipeline),
        )
    shards, split, other_collections = await divided(context, request, routing)
    if split.merge_stages:
        request = await under_own_collation(context, request, routing)
        pipeline = request.pipeline
    if split.merge_stages or len(shards) > 1:
        await settle_text_search(context, request.namespace, pipeline.leading_filter(), shards[0])
    cursor = get_field(request.base, "cursor")
    shard_cursor = (
        RawBSONDocument(cursor[1]) if cursor is not None and not split.merge_stages else {"batchSize": SHARD_BATCH}
    )
    merge = bool(split.merge_stages) or len(shards) > 1
    body = request.body(
        split.shard_stages, shard_cursor, {"batchBytes": batch_bytes()} if merge else other_collections.said
    )
    try:
        answers = await router.ask(context, routing, shards, body)
    except CommandError as error:
        if not await other_collections.is_new(context, error):
            raise
        return await _opened(context, request, routing)

    def finish() -> Finish:
        query_context = replace(pipeline.query_context, measures=split.metadata)
        return _finish(context, request.base, parse_written(split.merge_stages, query_context))

    return _merged_results(context, split, answers, finish if split.merge_stages else None)


async def _continued(context: Context, request: Request, begun: Begun) -> MergedCursor:
    """Return the results of the first attempt, which has begun; as `_opened`."""
    router, routing, asked = router_of(context), begun.targets.routing, begun.asked
    assert isinstance(asked, AskedPipeline), "the request of a pipeline"
    try:
        answers = await router.ask(context, routing, asked.target.shards, asked.body(context.raw), begun=begun.scatter)
    except CommandError as error:
        other_collections = await read_beside(context, request.pipeline.other_collections)
        if not await other_collections.is_new(context, error):
            raise
        return await _opened(context, request, routing)
    return asked.opening.cursor(answers)


def merged_halves(context: Context, base: bytes, halves: Halves, answers: Sequence[ShardReply]) -> MergedCursor:
    """Return the results of the shards' half, which have arrived, after the router's half. `base`: as in `Request`."""
    pipeline = halves.merging
    return _merged_results(
        context, halves.split, answers, partial(_finish, context, base, pipeline) if pipeline.stages else None
    )


def _merged_results(
    context: Context, split: SplitPipeline, answers: Sequence[ShardReply], finish: Callable[[], Finish] | None
) -> MergedCursor:
    shape = Shape(sort=split.merge_sort.pattern() if split.merge_sort else None)
    return merged_cursor(context, answers, shape, finish=finish)


async def under_own_collation(context: Context, request: Request, routing: Routing) -> Request:
    """Return the request with the collation of its collection or view. Shards take the collation from there, stages
    that run here cannot. Sharded collections have none.
    """
    collation = get_field(request.base, "collation")
    if routing.collection is not None or routing.primary is None or (collation and collation[1] != EMPTY_DOCUMENT):
        return request
    database, _, name = request.namespace.partition(".")
    shard = await router_of(context).shards_outside.get(primary_of(routing))
    body = bson.encode({"listCollections": 1, "filter": {"name": name}})
    versioned_body = versioned(body, version_for(routing, shard.name))
    answer = await shard.command(database, versioned_body, repeatable=True, deadline=context.deadline)
    collections = cursor_of(answer.body).documents
    options = get_field(collections[0], "options") if collections else None
    rules = None if options is None else get_field(options[1], "collation")
    if rules is None:
        return request
    query_context = replace(request.pipeline.query_context, collation=parse_collation(rules[1]))
    pipeline = parse_written([stage.raw for stage in request.pipeline.stages], query_context)
    fields = [field for field in elements(request.base) if field[0] != "collation"]
    return Request(document_from([*fields, ("collation", *rules)]), request.namespace, pipeline)


async def _of_all_shards(context: Context, request: Request, first: ProcessDocuments) -> MergedCursor:
    """Run the pipeline over the documents of its first stage from the processes of all shards."""
    router = router_of(context)

    shards = {shard.name: shard for shard in await router.shards.all()}

    async def one(name: str, _: Failure | None) -> ShardReply:
        body = request.body(shard_stages(first, name), {"batchSize": SHARD_BATCH}, {"batchBytes": batch_bytes()})
        return await shards[name].command(
            context.db, body, read_preference=context.read_preference, repeatable=True, deadline=context.deadline
        )

    answers = await router.leftovers.answers(tuple(shards), Scatter(router.leftovers.discard_answer), one)
    remotes = router.remotes(context, answers, None)
    own, tail = over_all(context, first, request.pipeline)
    finish = _finish(context, request.base, tail)
    finish.feed.append(own)
    return MergedCursor(remotes, Shape(), router.discard, scheduler=router.scheduler, finish=finish)


async def divided(context: Context, request: Request, routing: Routing) -> tuple[list[str], SplitPipeline, Beside]:
    """Return the target shards, the halves of the pipeline, and the other collections that it reads. A single shard
    may get all of it.
    """
    pipeline = request.pipeline
    shards = filter_shards(routing, pipeline.leading_filter())
    other_collections = await read_beside(context, pipeline.other_collections)
    if len(shards) == 1 and other_collections.is_on(shards[0]):
        return shards, SplitPipeline([stage.raw for stage in pipeline.stages], [], None), other_collections
    return shards, split_pipeline(pipeline), other_collections


def _finish(context: Context, base: bytes, pipeline: Pipeline) -> Finish:
    collections = RoutedCollections(context, base)
    router = router_of(context)
    on_disk = get_field(base, "allowDiskUse")
    spill = SpillFile(router.spill) if on_disk is None or is_true(on_disk) else None
    buffers = OperationBuffers()
    environment = Environment(
        clock=router.clock,
        buffers=buffers,
        foreign=collections,
        spill=spill,
        rng=random,
        process_documents=partial(own_documents, context),
    )
    feed = Feed()
    stream = pipeline.open(feed, environment) if pipeline.needs_collection else pipeline.open_own(environment)

    def close() -> None:
        collections.close()
        buffers.close()
        if spill is not None:
            spill.close()

    return Finish(feed, stream, collections.pending, close)


class RoutedCollections:
    """The collections of the request's database. Serves `docstore.aggregation.stage.Foreign`."""

    def __init__(self, context: Context, base: bytes) -> None:
        self._context = context
        self._base = base
        self._wanting: list[_Read] = []
        self._reads: list[_Read] = []

    def open(self, namespace: str, pipeline: Pipeline) -> Stream:
        let = get_field(self._base, "let")
        variables: dict[str, Value | None] = {} if let is None else {n: (c, d) for n, c, d in elements(let[1])}
        fields = [field for field in elements(self._base) if field[0] in _KEPT]
        late = [(name, *_constant(value)) for name, value in pipeline.query_context.late.items()]
        bindings = [(name, *value) for name, value in variables.items() if value is not None]
        names = {name for name, _, _ in late}
        bound = [field for field in bindings if field[0] not in names] + late
        if bound:
            fields.append(("let", OBJECT, document_from(bound)))
        # The request's collation applies, never that of the collection.
        collation = pipeline.query_context.collation
        fields.append(("collation", OBJECT, SIMPLE if collation is None else collation.raw))
        base = document_from([("aggregate", *string_value(namespace)), *fields])
        read = _Read(self._context, self._wanting, Request(base, f"{self._context.db}.{namespace}", pipeline))
        self._reads = [stream for stream in self._reads if not stream.ended]
        self._reads.append(read)
        return read

    def close(self) -> None:
        """Close the unfinished reads."""
        for read in self._reads:
            read.close()
        self._reads = []

    def equality(self, namespace: str, path: str, collation: Collation | None) -> None:
        """Return None: results of other processes are never available at once."""

    async def pending(self) -> None:
        """Fetch the documents for which reads wait."""
        wanting = list(self._wanting)
        self._wanting.clear()
        for read in wanting:
            await read.fetch()
        if not wanting:
            await asyncio.sleep(0)


_KEPT = frozenset(("lsid", "readConcern", "$clusterTime", "allowDiskUse", "comment"))


def _constant(value: Value | None) -> Value:
    """Return an expression with this constant value."""
    return string_value("$$REMOVE") if value is None else (OBJECT, document_from([("$literal", *value)]))


class _Read:
    """One pipeline over another collection, as a stream; without buffered documents it enters itself in `wanting`."""

    def __init__(self, context: Context, wanting: list[_Read], request: Request) -> None:
        self._context = context
        self._wanting = wanting
        self._request = request
        self._cursor: MergedCursor | None = None
        self._ready: list[bytes] = []
        self.ended = False

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        del deadline
        if not self._ready and not self.ended:
            if self not in self._wanting:
                self._wanting.append(self)
            return [], False
        documents, self._ready = self._ready, []
        return documents, self.ended

    async def fetch(self) -> None:
        """Fetch the next documents."""
        if self._cursor is None:
            self._cursor = await open_pipeline(self._context, self._request)
        self._ready, self.ended = await self._cursor.next_batch(_FOREIGN_DOCUMENTS, batch_bytes())
        if self.ended:
            self.close()

    def close(self) -> None:
        """Read no further."""
        if self._cursor is not None:
            self._cursor.close()
