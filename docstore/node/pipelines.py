"""An aggregation over the node's data: what the find layer can do, and the stages pushed over its batches.

Each step pushes batches small enough for a slice; what blocking stages have gathered comes out under the same deadline.
"""

from __future__ import annotations

from collections.abc import Callable

import bson

from docstore.aggregation.pipeline import Pipeline
from docstore.aggregation.stage import Environment, Stream
from docstore.collection.execute import open_count, open_find
from docstore.commands.arguments import declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.errors import Code, CommandError
from docstore.node.counted_groups import CountSource, counted_group
from docstore.node.cursors import Batch, Documents, DocumentSource
from docstore.node.node import DataNode, node_of
from docstore.node.reading import View
from docstore.node.statistics import namespace_stats, number
from docstore.query.find import Hint

PUSHED_DOCUMENTS = 1000
PUSHED_BYTES = 1024 * 1024
_STATISTICS = declared(
    Parameter("count", Type.OBJECT),
    Parameter("storageStats", Type.OBJECT),
    Parameter("latencyStats", Type.OBJECT, default=None),
    Parameter("queryExecStats", Type.OBJECT, unsupported="$collStats has no queryExecStats"),
)
_STORAGE = declared(Parameter("scale", Type.INT, default=1, minimum=1))


class Found:
    """What a find gives, as the stream that a pipeline reads."""

    __slots__ = ("_source",)

    def __init__(self, source: DocumentSource) -> None:
        self._source = source

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        batch = self._source.next_batch(PUSHED_DOCUMENTS, PUSHED_BYTES, deadline)
        return batch.documents, batch.exhausted


class PipelineSource:
    """The output of a pipeline, as a cursor reads it. `close` is what has to be done when it is closed."""

    def __init__(self, stream: Stream, close: Callable[[], None], clock: Callable[[], float]) -> None:
        self._stream = stream
        self._close = close
        self._clock = clock
        self._ready: list[bytes] = []
        self._at = 0
        self._finished = False

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        taken: list[bytes] = []
        room = max_bytes
        while len(taken) < max_docs and room > 0:
            if self._at < len(self._ready):
                raw = self._ready[self._at]
                if taken and len(raw) > room:
                    break
                self._at += 1
                room -= len(raw)
                taken.append(raw)
                continue
            if self._finished:
                return Documents(taken, True)
            self._at = 0
            self._ready, self._finished = self._stream.next_batch(deadline)
            if not self._ready and not self._finished and self._clock() >= deadline:
                break
        return Documents(taken, self._finished and self._at == len(self._ready))

    def close(self) -> None:
        self._ready = []
        self._close()


def open_pipeline(context: Context, pipeline: Pipeline, view: View, *, hint: Hint | None) -> DocumentSource:
    """The pipeline's output over a view of the request's collection; the view is not released."""
    node = node_of(context)
    environment = Environment(
        clock=node.clock, process_documents=lambda name, options: [_collection_statistics(context, options)]
    )
    if pipeline.has_source:
        return PipelineSource(pipeline.open_own(environment), _nothing_to_close, node.clock)
    query, rest = pipeline.find_query(hint)
    collection = node.store.collection(context.namespace)
    counted = counted_group(rest.stages)
    if counted is not None:
        return CountSource(open_count(collection, query, view.reader, owned=view.owned, clock=node.clock), counted)
    source: DocumentSource = open_find(collection, query, view.reader, owned=view.owned, clock=node.clock)
    if not rest.stages:
        return source
    return PipelineSource(rest.open(Found(source), environment), source.close, node.clock)


def _nothing_to_close() -> None:
    """A pipeline that makes its own documents holds nothing."""


def _collection_statistics(context: Context, options: bytes) -> bytes:
    """The document of `$collStats`. Errors: NamespaceNotFound, NotImplemented, Location40415."""
    node: DataNode = node_of(context)
    asked = parse_fields("$collStats", options, _STATISTICS)
    collection = node.store.collection(context.namespace)
    found = {"ns": context.namespace, "host": node.settings.address, "localTime": node.now()}
    if asked["latencyStats"] is not None:
        raise CommandError(Code.NotImplemented, "$collStats has no latencyStats")
    if asked["storageStats"] is not None:
        scale = parse_fields("$collStats.storageStats", asked["storageStats"], _STORAGE)["scale"]
        found["storageStats"] = namespace_stats(node, context.namespace, scale)
    if asked["count"] is not None:
        if collection is None:
            raise CommandError(Code.NamespaceNotFound, f"there is no collection {context.namespace} to count")
        found["count"] = number(collection.count)
    return bson.encode(found)
