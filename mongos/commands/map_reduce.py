"""`mapReduce` across shards: each maps and reduces its own documents; the router merges, reduces once more and
finalizes.

The shards run the internal form (`docstore.commands.requests.map_reduce`) and keep their results behind cursors, so
the router merges sorted streams and holds a batch of each. `mongos.merge.map_reduce` has the targets of the results.

With a `limit`, no shard knows which of its documents count. The router then reads the first documents of all and maps
them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, document_to_python, elements, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.map_reduce import Mode, Output, check_read_level, counts_document, job_of, output_of
from docstore.commands.specs.reads import MAP_REDUCE
from docstore.js.job import Counts, Limits, MapReduceJob
from docstore.js.results import InlineResults, KeptResults, reduce_with_existing
from docstore.js.workers import Sink
from docstore.query.filter.parse import parse_filter
from docstore.query.sort import parse_sort
from docstore.sharding.routing import Routing
from mongos.merge.map_reduce import existing, open_target
from mongos.merge.merged import MergedCursor, Shape
from mongos.merge.remote import RemoteCursor, batch_bytes
from mongos.router import router_of
from mongos.routing.query_context import query_context_of, statement_time
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.targeting import filter_shards
from mongos.stored_functions import stored_functions

_OF_MAP_REDUCE = (
    "mapReduce", "mapreduce", "map", "reduce", "finalize", "out", "query", "scope", "verbose", "jsMode",
    "bypassDocumentValidation", "writeConcern",
)  # fmt: skip
"""Fields that a find does not have, or not by that name."""
BATCH_DOCUMENTS = 5000
BATCH_BYTES = 4 * 1024 * 1024


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    check_read_level(context)
    output = output_of(args, context.db)
    query_context = query_context_of(context, collation=args["collation"])
    query_context = replace(query_context, excluded=query_context.excluded | {"$where"})
    tree = parse_filter(args["query"], query_context=query_context)
    sort = parse_sort(args["sort"], query_context, tree)
    seconds = None if context.deadline is None else max(context.deadline - router.clock(), 0.001)
    limits = Limits(seconds=seconds, owner=context.owner)
    job = job_of(args, limits, await stored_functions(context), query_context.collation)
    context.services.switches.check_scripting()
    began = router.clock()
    time = statement_time(query_context, args["query"])

    async def attempt(routing: Routing) -> _Reduction:
        shards = [] if routing.primary is None else filter_shards(routing, tree)
        if args["limit"] and len(shards) > 1:
            shape = Shape(sort=sort.pattern() if sort else None, limit=args["limit"])
            answers = await router.ask(context, routing, shards, _find(context, args, time))
            return _Mapping(context, job, shape, answers, router.remotes(context, answers, None))
        answers = await router.ask(context, routing, shards, _first_pass(context, time)) if shards else []
        return _Merging(context, job, answers, router.remotes(context, answers, None))

    reduction = await router.routed(context, attempt)
    mapped = router.clock()
    reply: dict[str, Any] = {}
    try:
        if output.mode is Mode.INLINE:
            inline = InlineResults()
            await reduction.run(inline.take)
            reply["results"] = [RawBSONDocument(document) for document in inline.documents]
        else:
            await _into_collection(context, job, reduction, output)
            reply["result"] = output.named(context.db)
    finally:
        reduction.close()
    ended = router.clock()
    return {
        **reply,
        "shardCounts": {address: counts_document(counts) for address, counts in reduction.parts.items()},
        "counts": counts_document(reduction.counts),
        "timeMillis": round((ended - began) * 1000),
        "timing": {"shards": round((mapped - began) * 1000), "final": round((ended - mapped) * 1000)},
    }


def _first_pass(context: Context, time: dict[str, Any]) -> bytes:
    return forwarded(
        context.raw,
        without=("out", "finalize", "writeConcern"),
        add={"out": {"inline": 1}, "shardedFirstPass": True, **time},
    )


def _find(context: Context, args: Arguments, time: dict[str, Any]) -> bytes:
    """Return the request for the first documents of a shard."""
    named = {"find": args.value, "filter": RawBSONDocument(args["query"]), "batchBytes": batch_bytes(), **time}
    options = forwarded(context.raw, without=_OF_MAP_REDUCE)
    return document_from([*elements(bson.encode(named)), *elements(options)])


class _Reduction(Protocol):
    """The router's work after the shards have answered: `run`, then `counts`. `parts`: the counts of the shards."""

    counts: Counts
    parts: dict[str, Counts]

    async def run(self, sink: Sink) -> None:
        """Write the results to the sink, in the order of their keys."""

    def close(self) -> None:
        """End the shards' cursors."""


class _Merging(_Reduction):
    """Results of shards, reduced once more."""

    def __init__(
        self, context: Context, job: MapReduceJob, answers: Sequence[ShardReply], remotes: list[RemoteCursor]
    ) -> None:
        self.parts = {answer.address: _counts_of(answer) for answer in answers}
        self.counts = sum(self.parts.values(), Counts())
        self._router = router_of(context)
        self._job = job
        self._remotes = remotes

    async def run(self, sink: Sink) -> None:
        runs = [_run_of(remote) for remote in self._remotes]
        merged = await self._router.workers.merge_reduce(self._job, runs, sink)
        self.counts = replace(self.counts, reduce=self.counts.reduce + merged.reduce, output=merged.output)

    def close(self) -> None:
        self._router.discard([remote for remote in self._remotes if not remote.exhausted])


class _Mapping(_Reduction):
    """The first documents of several shards, mapped here."""

    def __init__(
        self,
        context: Context,
        job: MapReduceJob,
        shape: Shape,
        answers: Sequence[ShardReply],
        remotes: list[RemoteCursor],
    ) -> None:
        self.parts = {answer.address: Counts() for answer in answers}
        self.counts = Counts()
        self._context = context
        self._router = router_of(context)
        self._job = job
        self._merged = MergedCursor(remotes, shape, self._router.discard, scheduler=self._router.scheduler)

    async def run(self, sink: Sink) -> None:
        self.counts = await self._router.workers.map_reduce(self._job, self._batches(), sink)

    async def _batches(self) -> AsyncIterator[list[bytes]]:
        done = False
        while not done:
            self._context.operation.check()
            documents, done = await self._merged.next_batch(BATCH_DOCUMENTS, BATCH_BYTES)
            if documents:
                yield documents

    def close(self) -> None:
        self._merged.close()


async def _run_of(remote: RemoteCursor) -> AsyncIterator[list[bytes]]:
    remote.hold()
    while await remote.fill():
        documents = list(remote.documents)
        remote.documents.clear()
        yield documents


def _counts_of(answer: ShardReply) -> Counts:
    counts = get_field(answer.body, "counts")
    assert counts is not None, "the internal form answers with counts"
    return Counts(**{name: int(value) for name, value in document_to_python(counts[1]).items()})


async def _into_collection(context: Context, job: MapReduceJob, reduction: _Reduction, output: Output) -> None:
    router = router_of(context)
    target = await open_target(context, output)
    results = KeptResults(router.spill)

    async def sink(documents: list[bytes]) -> None:
        context.operation.check()
        await target.write(documents)

    try:
        if output.mode is Mode.REDUCE:
            await reduction.run(results.take)
            find = partial(existing, context, output)
            counts = await reduce_with_existing(router.workers, job, results, find, sink)
            reduction.counts += Counts(reduce=counts.reduce)
        else:
            await reduction.run(sink)
        await target.end()
    except BaseException:
        await target.give_up()
        raise
    finally:
        results.close()


COMMAND = MAP_REDUCE.command(run)
