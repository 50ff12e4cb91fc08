"""The collections of a database in one snapshot, as read by pipelines and their `$lookup` stages.

Each read is planned like a find, so that a pipeline's leading filter uses indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from docstore.aggregation.parse import over_view, parse_pipeline
from docstore.aggregation.stage import Environment, Equality, Pipeline
from docstore.aggregation.stages.foreign import in_values
from docstore.aggregation.stages.geo_near import leading_geo_near, nearest_limit
from docstore.aggregation.streams import Stream
from docstore.bson import NULL, Value
from docstore.buffers import OperationBuffers
from docstore.collection.catalog.views import resolve_view
from docstore.collection.collection import Collection
from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.collection.read.access import PlanStats, count_uses
from docstore.collection.read.batching import DocumentBatches, ScanSource
from docstore.collection.read.execute import open_find
from docstore.collection.read.fetch import fetched_by_keys
from docstore.collection.read.planning import plan_query
from docstore.collection.read.sorter import SortMemory
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import node_of
from docstore.node.pipeline.process_stages import process_documents
from docstore.node.read.oplog import OplogRange
from docstore.node.read.requests import indexes_of, query_context_at
from docstore.node.read.sources import DocumentSource
from docstore.node.upkeep.execution import execution_of
from docstore.query.filter.tree import In
from docstore.query.find import FindQuery, Hint
from docstore.query.plan.access import CollectionScan, IndexScan, Plan
from docstore.query.plan.special.near import located_path
from docstore.query.value.collation import Collation
from docstore.query.value.values import string_value
from docstore.spill import SpillFile
from docstore.storage import Reader

if TYPE_CHECKING:
    from docstore.collection.collection import Index

PUSHED_DOCUMENTS = 1000
PUSHED_BYTES = 1024 * 1024
_MATCHES = 128


def located(pipeline: Pipeline, collection: Collection | None, namespace: str) -> Pipeline:
    """Return the pipeline with the path of its `$geoNear` resolved from the indexes.

    Errors: IndexNotFound, NamespaceNotFound.
    """
    stage = leading_geo_near(pipeline)
    if stage is None:
        return pipeline
    if collection is None:
        raise CommandError(
            Code.NamespaceNotFound, f"$geoNear requires a geo index to run, but {namespace} does not exist"
        )
    path = stage.near.path or located_path(list(collection.indexes.values()), namespace)
    return replace(pipeline, stages=(stage.at(path), *pipeline.stages[1:]))


class FindStream:
    """Adapts a find's source to the stream that a pipeline reads.

    `wanted`: the expected number of documents (0: unknown).
    """

    __slots__ = ("_most", "_source")

    def __init__(self, source: DocumentSource, wanted: int = 0) -> None:
        self._source = source
        self._most = min(wanted or PUSHED_DOCUMENTS, PUSHED_DOCUMENTS)

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        batch = self._source.next_batch(self._most, PUSHED_BYTES, deadline)
        return batch.documents, batch.exhausted


class LocalCollections:
    """The collections that one request reads. Implements `docstore.aggregation.stage.Foreign`."""

    def __init__(self, context: Context, reader: Reader, spill: SpillFile | None, buffers: OperationBuffers) -> None:
        node = node_of(context)
        self._context = context
        self._node = node
        self._reader = reader
        self._spill = spill
        self._buffers = buffers

    def environment(self, namespace: str) -> Environment:
        """Return a new environment for the stages of a pipeline over a collection."""
        # Not cached: it and this object would form a reference cycle, and the snapshot would live until garbage
        # collection.
        node = self._node
        return Environment(
            clock=node.clock,
            buffers=self._buffers,
            foreign=self,
            spill=self._spill,
            rng=node.rng,
            process_documents=lambda name, options: process_documents(self._context, namespace, name, options),
        )

    def open(self, namespace: str, pipeline: Pipeline) -> Stream:
        collection = f"{self._context.db}.{namespace}"
        resolved = resolve_view(self._node.store, collection)
        if resolved is not None:
            collection = resolved.ns
            query_context = replace(query_context_at(self._node, None), collation=resolved.collation)
            pipeline = over_view(pipeline, parse_pipeline(resolved.pipeline, query_context=query_context))
        environment = self.environment(collection)
        if pipeline.has_source:
            return pipeline.open_own(environment)
        query, remaining = self.split(collection, pipeline, None)
        stream = FindStream(self.find(collection, query), nearest_limit(remaining))
        return remaining.open(stream, environment) if remaining.stages else stream

    def split(self, namespace: str, pipeline: Pipeline, hint: Hint | None) -> tuple[FindQuery, Pipeline]:
        """Split a pipeline into its find and the stages over it; the find sorts only if an index provides the order."""
        if namespace == OPLOG_NS:
            return pipeline.find_query(hint, with_sort=False)
        pipeline = located(pipeline, self._node.store.collection(namespace), namespace)
        query, remaining = pipeline.find_query(hint)
        if query.sort.fields and not query.sort.measures:
            collection = self._node.store.collection(namespace)
            plan = plan_query(collection, FindQuery(filter=query.filter, sort=query.sort, hint=query.hint))
            if not plan.provides_sort:
                execution_of(self._context).sorts = True
                return pipeline.find_query(hint, with_sort=False)
        return query, remaining

    def find(self, namespace: str, query: FindQuery, owned: Predicate | None = None) -> DocumentSource:
        """Return the source of a pipeline's leading find."""
        oplog = self._node.store.oplog
        if namespace == OPLOG_NS and oplog is not None:
            return OplogRange(self._node, oplog, query)
        collection = self._node.store.collection(namespace)
        execution = execution_of(self._context)
        source = open_find(
            collection,
            query,
            self._reader,
            owned=owned,
            clock=self._node.clock,
            exact=execution.exact,
            memory=SortMemory(self._spill, self._buffers),
            indexes=indexes_of(self._context, collection),
        )
        execution.add(source.plan_stats)
        return source

    def equality(self, namespace: str, path: str, collation: Collation | None) -> Equality | None:
        collection = self._node.store.collection(f"{self._context.db}.{namespace}")
        if collection is None:
            return None
        access = plan_query(collection, FindQuery(filter=in_values(path, [_NULL, _TEXT], collation))).access
        if isinstance(access, CollectionScan):
            return None
        if isinstance(access, IndexScan) and not access.index.multikey and access.wildcard is None:
            index = cast("Index", access.index)
            ascending = index.fields[0][1] > 0
            plain = ascending and collation is None and index.collation is None and index.partial is None
            if plain and index.fields[0][0] == path and not execution_of(self._context).exact:
                return Equality(None, ascending, lambda keys: self._of_keys(collection, access, keys))
            return Equality(None, ascending)
        return Equality(lambda values: self._equal(collection, in_values(path, values, collation)))

    def _of_keys(self, collection: Collection, access: IndexScan, keys: list[bytes]) -> Stream:
        """Return the documents whose first indexed field has one of these keys."""
        stats = PlanStats(Plan(access, None, provides_sort=False))
        count_uses(collection, access)
        execution_of(self._context).add(lambda: stats)
        matches = fetched_by_keys(collection, cast("Index", access.index), keys, self._reader, stats.examined)
        return FindStream(ScanSource(DocumentBatches(matches, None, None, self._node.clock), 0))

    def _equal(self, collection: Collection, wanted: In) -> Iterator[bytes]:
        execution = execution_of(self._context)
        query = FindQuery(filter=wanted)
        source = open_find(collection, query, self._reader, clock=self._node.clock, exact=execution.exact)
        execution.add(source.plan_stats)
        while True:
            batch = source.next_batch(_MATCHES, PUSHED_BYTES, _NEVER)
            yield from batch.documents
            if batch.exhausted:
                return


_NULL: Value = (NULL, b"")
_TEXT = string_value("")
"""A value whose index keys depend on the collation."""
_NEVER = float("inf")
