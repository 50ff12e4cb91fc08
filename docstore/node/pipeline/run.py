"""Execution of pipelines: a find for the leading stages, and the other stages over its documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docstore.aggregation.stage import Pipeline
from docstore.aggregation.stages.geo_near import nearest_limit
from docstore.aggregation.streams import DocumentList, Stream
from docstore.bson.build import bytes_of
from docstore.buffers import OperationBuffers
from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.collection.read.counting import open_count
from docstore.commands.context import Context
from docstore.deferred_free import free_later
from docstore.node.limits import MAX_IMMEDIATE_FREE_BYTES
from docstore.node.node import node_of
from docstore.node.pipeline.collections import FindStream, LocalCollections
from docstore.node.pipeline.count import CountStream, counted_group
from docstore.node.pipeline.sampling import drawn_documents
from docstore.node.read.snapshot import View
from docstore.node.read.sources import Batch, Documents, DocumentSource, Evaluating, ReleasingSource
from docstore.node.upkeep.execution import execution_of
from docstore.query.find import Hint
from docstore.spill import SpillFile


class PipelineSource(Evaluating):
    """The output of a pipeline as a cursor's source; `close` runs the given cleanup.

    Documents that did not fit the last batch are counted in `buffers`. `long`: the arguments of the stages may be
    large.
    """

    def __init__(
        self,
        stream: Stream,
        buffers: OperationBuffers,
        close: Callable[[], None],
        clock: Callable[[], float],
        *,
        long: bool = False,
    ) -> None:
        self._long = long
        self._stream = stream
        self._buffers = buffers
        self._counted = 0
        self._close = close
        self._clock = clock
        self._ready: list[bytes] = []
        self._at = 0
        self._finished = False

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        documents: list[bytes] = []
        room = max_bytes
        while len(documents) < max_docs and room > 0:
            if self._at == 0 and 0 < len(self._ready) <= max_docs - len(documents):
                size = bytes_of(self._ready)
                if size <= room:
                    self._at = len(self._ready)
                    room -= size
                    documents += self._ready
                    continue
            if self._at < len(self._ready):
                raw = self._ready[self._at]
                if documents and len(raw) > room:
                    break
                self._at += 1
                room -= len(raw)
                documents.append(raw)
                continue
            if self._finished:
                return Documents(documents, True)
            if documents and self._clock() >= deadline:
                break
            self._at = 0
            self._ready, self._finished = self._stream.next_batch(deadline)
            if not self._ready and not self._finished and self._clock() >= deadline:
                break
        if self._ready or self._counted:
            buffered_bytes = bytes_of(self._ready[self._at :])
            self._buffers.change(buffered_bytes - self._counted)
            self._counted = buffered_bytes
        return Documents(documents, self._finished and self._at == len(self._ready))

    def evaluates(self) -> bool:
        return not self._finished

    def close(self) -> None:
        self._ready = []
        self._buffers.close()
        self._close()
        if self._long or self._buffers.most > MAX_IMMEDIATE_FREE_BYTES:
            free_later(self._stream)
        self._stream = DocumentList(())


def open_pipeline(
    context: Context, pipeline: Pipeline, view: View, *, hint: Hint | None, on_disk: bool = True
) -> DocumentSource:
    """Open the pipeline over a view of the request's collection; the view is not released.

    `on_disk`: stages may spill to disk.
    """
    node = node_of(context)
    spill = SpillFile(node.settings.dbpath) if on_disk else None
    buffers = OperationBuffers()
    long = len(context.raw) > MAX_IMMEDIATE_FREE_BYTES
    collections = LocalCollections(context, view.reader, spill, buffers)
    environment = collections.environment(context.namespace)
    if pipeline.has_source:
        own = pipeline.open_own(environment)
        return PipelineSource(own, buffers, partial(_close, None, spill), node.clock, long=long)
    query, remaining = collections.split(context.namespace, pipeline, hint)
    counted = None if context.namespace == OPLOG_NS else counted_group(remaining.stages)
    if counted is not None:
        collection = node.store.collection(context.namespace)
        clock, newest = node.clock, view.newest
        execution = execution_of(context)
        counting = open_count(
            collection, query, view.reader, owned=view.owned, clock=clock, newest=newest, exact=execution.exact
        )
        execution.add(counting.plan_stats)
        stream = Pipeline(remaining.stages[1:], remaining.query_context).open(
            CountStream(counting, counted), environment
        )
        return PipelineSource(stream, buffers, partial(_close, None, spill), node.clock, long=long)
    source = collections.find(context.namespace, query, view.owned)
    if not remaining.stages:
        return ReleasingSource(source, partial(_close, None, spill, buffers))
    drawn = drawn_documents(
        node.store.collection(context.namespace), query, remaining, view.reader, view.owned, node.rng
    )
    if drawn is None:
        stream = remaining.open(FindStream(source, nearest_limit(remaining)), environment)
    else:
        stream = Pipeline(remaining.stages[1:], remaining.query_context).open(DocumentList(drawn), environment)
    return PipelineSource(stream, buffers, partial(_close, source, spill), node.clock, long=long)


def _close(source: DocumentSource | None, spill: SpillFile | None, buffers: OperationBuffers | None = None) -> None:
    if source is not None:
        source.close()
    if buffers is not None:
        buffers.close()
    if spill is not None:
        spill.close()
