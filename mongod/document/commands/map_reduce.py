"""mapReduce on one node: the user's functions run in a worker process over a snapshot of what the node owns.

The internal form (`shardedFirstPass`, see `docstore.commands.requests.map_reduce`) leaves out finalize and answers with
a cursor over the results in the order of their keys. Where results go: `docstore.node.pipeline.map_reduce`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import Value, append_fields
from docstore.collection.catalog.views import check_no_view
from docstore.collection.read.execute import open_find
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Result, Type, in_one_piece
from docstore.commands.requests.map_reduce import Mode, Output, check_read_level, counts_document, job_of, output_of
from docstore.commands.specs.reads import MAP_REDUCE
from docstore.js.job import Counts, Limits, MapReduceJob
from docstore.js.results import InlineResults, KeptResults, reduce_with_existing
from docstore.js.workers import Sink
from docstore.node.node import DataNode, node_of
from docstore.node.pipeline.map_reduce import MapReduceOutput
from docstore.node.pipeline.stored_functions import stored_functions
from docstore.node.read.cursors import first_batch
from docstore.node.read.requests import filter_of, query_context_of, sort_of
from docstore.node.read.snapshot import view_of
from docstore.node.read.sources import DocumentSource, MadeSource, ReleasingSource
from docstore.node.read.statement_time import STATEMENT_TIME
from docstore.node.slices import finish_steps, step_end
from docstore.query.context import QueryContext
from docstore.query.find import FindQuery

BATCH_DOCUMENTS = 5000
MARGIN_SECONDS = 0.02
BATCH_BYTES = 4 * 1024 * 1024


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    check_no_view(node.store, context.namespace)
    check_read_level(context)
    output = output_of(arguments, context.db)
    output.check_sharded(False)
    query_context = query_context_of(context, arguments)
    # The functions are stopped before the whole operation is, which would be told as another error.
    seconds = None if context.deadline is None else max(context.deadline - node.clock() - MARGIN_SECONDS, 0.001)
    limits = Limits(seconds=seconds, owner=context.owner)
    job = job_of(arguments, limits, stored_functions(node, context.db), query_context.collation)
    context.services.switches.check_scripting()
    query_context = replace(query_context, scripts=None, excluded=query_context.excluded | {"$where"})
    mapping = _Mapping(context, job, _query(arguments, query_context), partial=arguments["shardedFirstPass"])
    if mapping.partial:
        return await _first_pass(mapping)
    began = node.clock()
    if output.mode is Mode.INLINE:
        inline = InlineResults()
        await mapping.run(inline.take)
        reply: dict[str, Any] = {"results": [RawBSONDocument(raw) for raw in inline.documents]}
    else:
        reply = {"result": output.named(context.db)}
        failed = await _into_collection(mapping, output, bypass=arguments["bypassDocumentValidation"])
        if failed is not None:
            reply["writeConcernError"] = failed
    ended = node.clock()
    reply["timeMillis"] = round((ended - began) * 1000)
    reply["counts"] = counts_document(mapping.counts)
    if arguments["verbose"]:
        total = round((ended - began) * 1000)
        reply["timing"] = {"emitLoop": round((mapping.mapped - began) * 1000), "total": total}
    return reply


def _query(arguments: Arguments, query_context: QueryContext) -> FindQuery:
    tree = filter_of(arguments["query"], query_context)
    return FindQuery(filter=tree, sort=sort_of(arguments["sort"], query_context), limit=arguments["limit"] or 0)


class _Mapping:
    """The work of one command: `run`, then `counts`; `mapped` is when the last document had been handed out."""

    def __init__(self, context: Context, job: MapReduceJob, query: FindQuery, *, partial: bool) -> None:
        self.context = context
        self.job = job
        self.partial = partial
        self.counts = Counts()
        self.mapped = 0.0
        self._query = query

    async def run(self, sink: Sink) -> None:
        context = self.context
        node = node_of(context)
        assert node.workers is not None, "a process that serves mapReduce has workers"
        view = await finish_steps(context, view_of(context))
        try:
            source = open_find(
                node.store.collection(context.namespace), self._query, view.reader, owned=view.owned, clock=node.clock
            )
            try:
                batches = self._batches(node, source)
                self.counts = await node.workers.map_reduce(self.job, batches, sink, partial=self.partial)
            finally:
                source.close()
        finally:
            view.release()

    async def _batches(self, node: DataNode, source: DocumentSource) -> AsyncIterator[list[bytes]]:
        done = 0
        exhausted = False
        while not exhausted:
            batch = source.next_batch(BATCH_DOCUMENTS, BATCH_BYTES, step_end(node))
            exhausted = batch.exhausted
            done += len(batch.documents)
            self.context.operation.progress = {"msg": "m/r: map", "progress": {"done": done}}
            self.mapped = node.clock()
            if batch.documents:
                yield batch.documents
            await node.pause()


async def _first_pass(mapping: _Mapping) -> Result:
    """Results for a router, by a cursor: the worker is free again before anyone takes them."""
    context = mapping.context
    node = node_of(context)
    results = KeptResults(spill_directory(node))
    try:
        await mapping.run(results.take)
    except BaseException:
        results.close()
        raise
    source = ReleasingSource(MadeSource(results.documents(), node.clock), results.close)
    body = in_one_piece(await finish_steps(context, first_batch(context, source, batch_size=None)))
    return append_fields(body, bson.encode({"counts": counts_document(mapping.counts)})[4:-1])


async def _into_collection(mapping: _Mapping, output: Output, *, bypass: bool) -> dict[str, Any] | None:
    """Put the results into their collection. Gives the writeConcernError, if any."""
    context = mapping.context
    node = node_of(context)
    target = MapReduceOutput(context, output, bypass=bypass)
    target.check_target()
    results = KeptResults(spill_directory(node))
    await target.begin()
    try:
        if output.mode is Mode.REDUCE and node.store.collection(output.namespace) is not None:
            await mapping.run(results.take)
            await _reduce_with_target(mapping, output, results, target.sink)
        else:
            await mapping.run(target.sink)
        context.operation.progress = {"msg": "m/r: output"}
        return await target.finish()
    except BaseException:
        target.give_up()
        raise
    finally:
        results.close()


async def _reduce_with_target(mapping: _Mapping, output: Output, results: KeptResults, sink: Sink) -> None:
    node = node_of(mapping.context)
    assert node.workers is not None, "a process that serves mapReduce has workers"
    target = node.store.collection(output.namespace)

    async def existing(keys: list[Value]) -> list[bytes | None]:
        target = node.store.collection(output.namespace)
        if target is None:
            return [None] * len(keys)
        records = [target.by_id(node.engine, key) for key in keys]
        return [None if record is None else record[1] for record in records]

    job = replace(mapping.job, collation=None if target is None else target.collation)
    counts = await reduce_with_existing(node.workers, job, results, existing, sink)
    mapping.counts += replace(counts, output=0)


def spill_directory(node: DataNode) -> Path:
    """Return the directory for intermediate results, which is emptied at the start of the process."""
    return node.settings.dbpath / "_tmp"


COMMAND = MAP_REDUCE.command(
    run,
    Exceptional(
        "of a router: the half of the work that shards do",
        Parameter("shardedFirstPass", Type.BOOL, default=False, internal=True),
    ),
    STATEMENT_TIME,
)
