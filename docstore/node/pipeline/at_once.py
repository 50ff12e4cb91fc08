"""Fast path for pipelines over few documents: a prepared `$match` and cached stages, answered in one step.

If the stages need only the distinct values of an index, one entry per value is read.

* Pipelines of other kinds (`docstore.node.pipeline.pipeline_templates`), requests that fail, and those that take more
  than a step go to the general path.
* Nothing else runs within the step, so the buffers of the stages are theirs alone.
* A `$lookup` with a prepared filter reads the other collection in the same step; so does a `$unionWith` whose pipeline
  qualifies.
* A view is read as its definition's stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from docstore.aggregation.stage import Environment, Equality, Pipeline
from docstore.aggregation.stages.foreign import equal_to_any
from docstore.aggregation.stages.geo_near import nearest_limit
from docstore.aggregation.stages.match import Match
from docstore.aggregation.streams import DocumentList, Stream, drained
from docstore.bson.build import bytes_of, document_from
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, STRING, Value, elements, get_field, values
from docstore.buffers import OperationBuffers
from docstore.collection.catalog.views import ResolvedView, resolve_view
from docstore.collection.collection import Collection
from docstore.collection.limits import MAX_STEP_ENTRIES
from docstore.collection.read.prepared import BoundScan, bound_scan
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Encoded
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.requests.view_stages import batch_size_on_view, find_stages, natural_sort
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.net.scheduling.scheduler import FIRST_STEP_SECONDS
from docstore.node.limits import MAX_INLINE_RESULT_BYTES
from docstore.node.node import DataNode
from docstore.node.pipeline.pipeline_templates import (
    InFind,
    Nearness,
    Piece,
    SeriesPiece,
    in_find,
    nearness_of,
    pieces_of,
    series_pieces,
)
from docstore.node.read.at_once import collation_of, is_apart, scan_at_once, values_at_once
from docstore.node.read.cursors import FIRST_BATCH_DOCUMENTS, opened_reply, whole_reply
from docstore.node.read.snapshot import StepState, newest
from docstore.node.read.sources import kept_source
from docstore.node.timeseries.reading import asking, unpack_buckets
from docstore.node.timeseries.series import Series, series_over
from docstore.node.upkeep.execution import is_profiled
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Comparison, DocumentTest
from docstore.query.pausing import PAUSING, REFUSED
from docstore.query.plan.shapes import conjuncts, has_free_value
from docstore.query.plan.special.near import located_path
from docstore.query.value.collation import Collation
from docstore.query.value.values import text_of

_GIVEN = frozenset(("pipeline", "cursor", "collation", "batchBytes", "fromMongos", "otherVersions"))
_OF_FIND = frozenset(("filter", "sort", "projection", "skip", "limit", "batchSize", "singleBatch"))
_NEWEST = (True, None)
"""State for a request that reads the newest data without waiting, on a node that owns all of it."""


def aggregate_at_once(context: Context, node: DataNode, arguments: Arguments, namespace: str) -> Encoded | None:
    """Return the reply of an aggregate whose documents are all found in one step.

    None, with nothing done, otherwise. A cursor keeps the documents beyond the first batch.
    """
    stages: list[bytes] = arguments["pipeline"]
    options = arguments.sent_values()
    if not options.keys() <= _GIVEN or not stages or arguments["cursor"] is None:
        return None
    if options.get("batchBytes", MAX_INLINE_RESULT_BYTES) < MAX_INLINE_RESULT_BYTES:
        return None
    if namespace in node.store.catalog.collections:
        collection = node.store.collection(namespace)
        is_valid, collation = (
            (False, None) if collection is None else collation_of(collection, options.get("collation"))
        )
        if not is_valid:
            return None
        halves = bool(options.get("fromMongos"))
        return _at_once(context, node, namespace, stages, batch_size_of(arguments), collation, halves=halves)
    resolved = None if "collation" in options else _view(context, node, namespace)
    if resolved is None:
        return None
    return _of_view(context, node, resolved, stages, batch_size_of(arguments))


def find_on_view_at_once(
    context: Context, node: DataNode, arguments: Arguments, resolved: ResolvedView
) -> Encoded | None:
    """Return the reply of a find on a view, as `aggregate_at_once` does."""
    if _is_of_shard(context, node) or resolved.collation is not None or not arguments.sent_values().keys() <= _OF_FIND:
        return None
    if natural_sort(arguments) is not None:
        return None
    return _of_view(context, node, resolved, find_stages(arguments), batch_size_on_view(arguments))


def _is_of_shard(context: Context, node: DataNode) -> bool:
    """True if the collection below a view may have documents on other shards."""
    return node.shard_filter is not None or context.shard_version is not None


def _view(context: Context, node: DataNode, namespace: str) -> ResolvedView | None:
    """Return the resolved view; None if there is none, or if the general path must read it."""
    if _is_of_shard(context, node):
        return None
    try:
        resolved = resolve_view(node.store, namespace)
    except CommandError:
        return None
    return None if resolved is None or resolved.collation is not None else resolved


def _of_view(
    context: Context, node: DataNode, resolved: ResolvedView, stages: Sequence[bytes], batch: int | None
) -> Encoded | None:
    """Return the reply of stages over a view, as `_at_once` does."""
    collection = node.store.collection(resolved.ns)
    series = None if collection is None else series_over(collection)
    if series is None or list(resolved.pipeline[:1]) != [series.definition.unpack_stage()]:
        return _at_once(context, node, resolved.ns, [*resolved.pipeline, *stages], batch)
    if context.api_strict or is_apart(context):
        return None
    pieces = series_pieces([*resolved.pipeline[1:], *stages])
    if pieces is None or series.buckets.collation is not None or is_profiled(context) or newest(context) != _NEWEST:
        return None
    state = StepState(node.engine, None)
    return _answered(context, node, state, batch, lambda step: step.measured(series, *pieces))


def _at_once(
    context: Context,
    node: DataNode,
    namespace: str,
    stages: Sequence[bytes],
    batch: int | None,
    collation: Collation | None = None,
    *,
    halves: bool = False,
) -> Encoded | None:
    """Return the reply of stages over a collection.

    `batch`: size of the first batch (None: the default); `halves`: a router has written the stages.
    """
    collection = node.store.collection(namespace)
    if collection is None or context.api_strict or is_apart(context):
        return None
    pieces = pieces_of(stages, collation, halves=halves)
    if pieces is None:
        near = nearness_of(stages, halves=halves) if collation is None else None
        return None if near is None else _by_distance(context, node, collection, near, batch)
    filter_, piece, unions = pieces
    scan = _scan_or_values(context, collection, filter_, piece, collation)
    if scan is None:
        return None
    source, state = scan

    def work(step: _Step) -> list[bytes]:
        if isinstance(source, BoundScan):
            documents = step.documents(source, state.owned, piece)
        else:
            documents = step.through(source, piece.pipeline)
        for union, next_stages in unions:
            documents += step.united(union)
            documents = step.through(documents, next_stages.pipeline)
        return documents

    return _answered(context, node, state, batch, work)


def _answered(
    context: Context, node: DataNode, state: StepState, batch: int | None, work: Callable[[_Step], list[bytes]]
) -> Encoded | None:
    """Return the reply with the documents that `work` returns; None if the general path must answer."""
    step = _Step(context, node, state)
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
    try:
        documents = work(step)
    except (CommandError, _More):
        # If memory is short, the general path reports the error.
        return None
    finally:
        PAUSING.level = level
        step.close()
    size = FIRST_BATCH_DOCUMENTS if batch is None else batch
    if len(documents) == size or bytes_of(documents) > MAX_INLINE_RESULT_BYTES:
        # If the batch is exactly full, the general path decides whether a cursor stays.
        return None
    remaining = kept_source(documents[size:])
    if remaining is None:
        return None
    step.used()
    if len(documents) < size:
        return whole_reply(context, documents)
    return opened_reply(context, documents[:size], remaining)


def _by_distance(
    context: Context, node: DataNode, collection: Collection, nearness: Nearness, batch: int | None
) -> Encoded | None:
    """Return the reply of a pipeline that begins with `$geoNear`, as `_at_once` does."""
    stage = nearness.stage
    path = stage.near.path or _only_path(collection)
    query = elements(stage.query)
    if path is None or any(name == path for name, _, _ in query):
        return None
    filter_ = document_from([(path, *stage.near.argument), *query])
    scan = scan_at_once(context, collection, filter_, special=True)
    if scan is None or scan[0].near is None:
        return None
    near, state = scan

    def work(step: _Step) -> list[bytes]:
        documents = step.nearest(near, state.owned, nearest_limit(nearness.pipeline))
        return step.through(stage.at(path).measured(documents), nearness.behind)

    return _answered(context, node, state, batch, work)


def _only_path(collection: Collection) -> str | None:
    """Return the path for a `$geoNear` without `key`; None if it is ambiguous."""
    try:
        return located_path(list(collection.indexes.values()), collection.ns)
    except CommandError:
        return None


def _scan_or_values(
    context: Context,
    collection: Collection,
    filter_: bytes,
    piece: Piece,
    collation: Collation | None,
) -> tuple[BoundScan | list[bytes], StepState] | None:
    """Return the input of the stages and its state.

    The input is a scan, or one document per distinct value if the stages need only those.
    """
    distinct = piece.distinct
    if filter_ == EMPTY_DOCUMENT and distinct is not None:
        return values_at_once(context, collection, distinct)
    counted = piece.counted is not None
    sort = piece.find.sort
    scan = scan_at_once(context, collection, filter_, sort=sort, counted=counted, collation=collation)
    if scan is None or distinct is None:
        return scan
    bound, state = scan
    values = None if state.owned is not None else bound.values_at(distinct, state.reader)
    if values is not None:
        bound.used()
        return values, state
    # The general path reads one index entry per value.
    return None if bound.is_by(distinct) else scan


class _More(Exception):
    """The work takes more than a step, or needs the general path."""


class _Step:
    """The execution of one request over one state; reads other collections of the database by prepared scans only.

    Implements `docstore.aggregation.stage.Foreign` for equalities. Methods raise `_More` and CommandError.
    """

    __slots__ = ("_bound", "_buffers", "_context", "_node", "_reader", "_state", "_until")

    def __init__(self, context: Context, node: DataNode, state: StepState) -> None:
        self._node = node
        self._state = state
        self._reader = state.reader
        self._context = context
        self._until = node.clock() + FIRST_STEP_SECONDS
        self._buffers = OperationBuffers()
        self._bound: list[BoundScan] = []

    def documents(self, bound: BoundScan, owned: Predicate | None, piece: Piece) -> list[bytes]:
        """Return the output of the stages over a scan."""
        node = self._node
        self._bound.append(bound)
        if piece.counted is not None:
            count = bound.counted(self._reader, owned, node.clock, self._until)
            if count is None:
                raise _More
            return self.through(piece.counted.documents(count), piece.pipeline)
        find = piece.find
        most = find.limit or MAX_STEP_ENTRIES + 1
        documents = bound.documents(self._reader, most, owned, skip=find.skip, needs=piece.needs)
        if documents is None:
            raise _More
        return self.through(documents, piece.pipeline)

    def nearest(self, bound: BoundScan, owned: Predicate | None, limit: int) -> list[bytes]:
        """Return the `limit` nearest documents by distance (0: all)."""
        documents = bound.documents(self._reader, limit or MAX_STEP_ENTRIES + 1, owned)
        if documents is None:
            raise _More
        self._bound.append(bound)
        return documents

    def through(self, documents: list[bytes], pipeline: Pipeline) -> list[bytes]:
        """Return the output of the pipeline over these documents."""
        if not pipeline.stages:
            return documents
        stream = pipeline.open(DocumentList(documents), self._environment())
        results = drained(stream, self._node.clock, self._until)
        if results is None:
            raise _More
        return results

    def measured(self, series: Series, filter_: bytes, piece: SeriesPiece) -> list[bytes]:
        """Return the output of the stages over the measurements of a time-series collection that match a filter."""
        node, until = self._node, self._until
        query = asking(series, filter_)
        if query is None:
            raise _More
        first = piece.first if piece.sorted_by == series.definition.time_field else None
        buckets = query.newest_by_index(self._reader, first) if first and piece.direction < 0 else None
        if buckets is None:
            buckets = query.buckets(self._reader, node.clock, node.clock() + FIRST_STEP_SECONDS)
            if buckets is None:
                raise _More
            if first is not None:
                buckets = query.of_newest(buckets, piece.direction, first)
        measured = query.measurements(piece.wanted)
        if piece.counted is not None:
            count = sum(map(measured.count, buckets))
            return self.through(piece.counted.documents(count), piece.pipeline)
        documents = unpack_buckets(buckets, measured.of, node.clock, until)
        if documents is None:
            raise _More
        return self.through(documents, piece.pipeline)

    def _environment(self) -> Environment:
        return Environment(clock=self._node.clock, buffers=self._buffers, foreign=self)

    def united(self, union: bytes) -> list[bytes]:
        """Return the documents of a `$unionWith`, given its argument."""
        fields = {name: (code, data) for name, code, data in elements(union)}
        coll, pipeline = fields.pop("coll", None), fields.pop("pipeline", None)
        if fields or coll is None or coll[0] != STRING or pipeline is None or pipeline[0] != ARRAY:
            raise _More
        stages = values(pipeline[1])
        pieces = pieces_of([raw for _, raw in stages]) if all(code == OBJECT for code, _ in stages) else None
        if pieces is None or pieces[2]:
            raise _More
        filter_, piece, _ = pieces
        collection = self._collection(text_of(coll))
        counted = piece.counted is not None
        bound = bound_scan(collection, filter_, self._reader, sort=piece.find.sort, counted=counted)
        if bound is None or not (bound.parts or self._state.newest):
            raise _More
        return self.documents(bound, None, piece)

    def close(self) -> None:
        """Release the buffers from the accounting."""
        self._buffers.close()

    def used(self) -> None:
        """Count the uses of the indexes that served the request."""
        for bound in self._bound:
            bound.used()

    def open(self, namespace: str, pipeline: Pipeline) -> Stream:
        """Open a pipeline that begins with a filter."""
        first = pipeline.stages[0]
        if not isinstance(first, Match):
            raise _More
        filter_, predicate = _split_filter(first)
        find = in_find([stage.raw for stage in pipeline.stages[1:4]])
        documents = self._matches(self._collection(namespace), filter_, find, predicate)
        remaining = replace(pipeline, stages=pipeline.stages[1 + find.stages :])
        return (
            remaining.open(DocumentList(documents), self._environment())
            if remaining.stages
            else DocumentList(documents)
        )

    def equality(self, namespace: str, path: str, collation: Collation | None) -> Equality | None:
        """Return a lookup by one query per document, if an index on the path is multikey.

        None otherwise: one query serves many documents.
        """
        del collation
        collection = self._collection(namespace)
        if any(index.multikey and index.spec.fields[0][0] == path for index in collection.indexes.values()):
            return Equality(partial(self._equal, collection, path))
        return None

    def _equal(self, collection: Collection, path: str, values: list[Value]) -> Iterator[bytes]:
        (match,) = elements(equal_to_any(path, values, None).raw)
        return iter(self._matches(collection, match[2], InFind()))

    def _collection(self, name: str) -> Collection:
        context = self._context
        if context.shard_version is not None and get_field(context.raw, "otherVersions") is None:
            # It may be on another shard.
            raise _More
        collection = self._node.store.collection(f"{context.db}.{name}")
        if collection is None or collection.collation is not None or not self._state.holds(self._node, collection):
            raise _More
        return collection

    def _matches(
        self, collection: Collection, filter_: bytes, find: InFind, predicate: Predicate | None = None
    ) -> list[bytes]:
        """Return the documents that match a filter and a predicate."""
        bound = bound_scan(collection, filter_, self._reader, sort=find.sort)
        if bound is None or not (bound.parts or self._state.newest):
            raise _More
        documents = bound.documents(self._reader, find.limit or MAX_STEP_ENTRIES + 1, predicate, skip=find.skip)
        if documents is None:
            raise _More
        self._bound.append(bound)
        return documents


def _split_filter(match: Match) -> tuple[bytes, Predicate | None]:
    """Split a `$match` into (a filter without `$expr` that selects a superset, the predicate for the rest or None)."""
    fields = elements(elements(match.raw)[0][2])
    plain = [condition for condition in fields if condition[0] != "$expr"]
    if len(plain) == len(fields):
        return elements(match.raw)[0][2], None
    names = {name for name, _, _ in plain}
    for test in conjuncts(match.filter):
        for condition in test.implied() if isinstance(test, DocumentTest) and test.implied is not None else ():
            if isinstance(condition, Comparison) and has_free_value(condition) and condition.path not in names:
                plain.append((condition.path, *condition.value))
                names.add(condition.path)
    return document_from(plain), compile_filter(match.filter)
