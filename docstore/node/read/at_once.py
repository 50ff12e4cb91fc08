# cython: annotation_typing=False
"""Fast path for reads that are answered, with their first batch, in one step by a prepared scan.

Each function answers a whole command, or returns None with nothing done. Requests with other options (`let`, a view, a
snapshot that does not exist yet) and long scans are left to the general path, whose reply is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import cython

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.known_projections import known_projection
from docstore.aggregation.limits import MAX_CACHED_PROJECTION_BYTES
from docstore.bson.build import bytes_of
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT, Value, elements
from docstore.collection.collection import Collection
from docstore.collection.limits import MAX_STEP_ENTRIES
from docstore.collection.read.batching import DocumentBatches, ScanSource, both
from docstore.collection.read.prepared import BoundScan, bound_scan, values_of_all
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Encoded
from docstore.errors import CommandError
from docstore.net.scheduling.scheduler import FIRST_STEP_SECONDS
from docstore.node.limits import MAX_INLINE_RESULT_BYTES
from docstore.node.node import DataNode, node_of
from docstore.node.read.cursors import FIRST_BATCH_DOCUMENTS, MAX_BATCH_BYTES, opened_reply, whole_reply
from docstore.node.read.distinct import DistinctValues
from docstore.node.read.snapshot import StepState, newest, state_at_once
from docstore.node.read.sources import ReleasingSource, kept_source
from docstore.node.upkeep.execution import is_profiled
from docstore.query.filter.tree import TextSearch
from docstore.query.pausing import REFUSED, allowing
from docstore.query.plan.special.prepared import PreparedSearch
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import Projection, kept_paths, metadata_kinds
from docstore.query.text.languages import LOOSE
from docstore.query.text.search import TextMatcher
from docstore.query.value.collation import Collation, parse_collation

_FIND_OPTIONS = frozenset(
    (
        "filter", "sort", "projection", "skip", "limit", "batchSize", "batchBytes", "singleBatch", "hint", "collation",
    )
)  # fmt: skip
_TEXT = b"$text\0"
_DISTINCT_OPTIONS = frozenset(("key", "query", "collation"))
_COUNT_OPTIONS = frozenset(("query", "skip", "limit", "collation"))


@cython.ccall
def is_apart(context: Context) -> bool:
    """Return True if the request is offloaded: other tasks may run during its steps."""
    return context.begun_progress is not None and context.begun_progress.apart


def scan_at_once(
    context: Context,
    collection: Collection,
    filter_: bytes,
    *,
    sort: bytes = EMPTY_DOCUMENT,
    counted: bool = False,
    hint: Value | None = None,
    collation: Collation | None = None,
    special: bool = False,
) -> tuple[BoundScan, StepState] | None:
    """Return the prepared scan of a request and the state to read; None if either does not exist without waiting.

    `collation`, `special`: as for `bound_scan`. Errors: StaleConfig.
    """
    if is_profiled(context) or is_apart(context):
        return None
    bound = bound_scan(
        collection,
        filter_,
        node_of(context).engine,
        sort=sort,
        counted=counted,
        hint=hint,
        collation=collation,
        special=special,
    )
    if bound is None:
        return None
    state = state_at_once(context, collection)
    if state is None or not (state.newest or bound.parts):
        # The number of documents of an earlier state is unknown.
        return None
    return bound, state


@cython.ccall
def collation_of(collection: Collection, raw: bytes | None) -> tuple[bool, Collation | None]:
    """Return (True, the collation of the request or else of the collection), or (False, None) for an invalid one.

    The general path reports the error.
    """
    if raw is None or raw == EMPTY_DOCUMENT:
        return True, collection.collation
    try:
        return True, parse_collation(raw)
    except CommandError:
        return False, None


@cython.ccall
def find_at_once(context: Context, node: DataNode, arguments: Arguments, collection: Collection) -> Encoded | None:
    """Return the reply of a find. Errors: StaleConfig, those that interrupt long expressions."""
    return allowing(REFUSED, _find_at_once, context, node, arguments, collection)


@cython.ccall
def _find_at_once(context: Context, node: DataNode, arguments: Arguments, collection: Collection) -> Encoded | None:
    options = arguments.sent_values()
    if not options.keys() <= _FIND_OPTIONS:
        return None
    projection = None
    raw_projection = options.get("projection")
    if raw_projection is not None:
        projection = known_projection(raw_projection)
        if projection is None and _TEXT not in options.get("filter", EMPTY_DOCUMENT):
            return None
    scan = _scan_of_find(context, collection, options, projection)
    if scan is None:
        return None
    bound, state = scan
    owned = state.owned
    if raw_projection is not None and projection is None:
        projection = _projection_with_score(raw_projection, bound)
        if projection is None:
            return None
    skip, limit = options.get("skip", 0), options.get("limit", 0)
    batch = options.get("batchSize", FIRST_BATCH_DOCUMENTS)
    if batch == 0:
        # A cursor stays in any case.
        return None
    max_bytes = options.get("batchBytes", MAX_BATCH_BYTES)
    is_single_batch = options.get("singleBatch", False) or 0 < limit <= batch
    batch_limit = min(limit or batch, batch)
    visited: list[bytes] | None = None if is_single_batch else []
    if visited is not None and bound.near is not None and collection.plans.takes_long(bound.key):
        return None
    needs = None if projection is None else kept_paths(projection)
    if visited is not None and bound.scan.order is not None:
        return _sorted_reply(context, scan, projection, _ResultLimits(skip, limit, batch, max_bytes))
    documents = bound.documents(state.reader, batch_limit, owned, visited, skip=skip, needs=needs)
    if documents is None or (len(documents) > 1 and bytes_of(documents) > max_bytes):
        return None
    # A full batch leaves a cursor, even at the end of the results.
    leaves_cursor = visited is not None and len(documents) == batch_limit
    if projection is not None and not projection.is_plain:
        return None if leaves_cursor else _projected_reply(context, bound, documents, projection)
    if visited is not None and leaves_cursor:
        reader, release = state.hold()
        # A covered scan records no documents in `visited`: the general path serves it from the start.
        remaining = bound.rest(reader, documents, visited) if visited else None
        if remaining is None:
            release()
            if bound.near is not None:
                # All of them would be searched again.
                collection.plans.took_long(bound.key)
            return None
        bound.used()
        batches = DocumentBatches(
            remaining, both(bound.predicate, owned), None if projection is None else projection.apply_all, node.clock
        )
        source = ReleasingSource(ScanSource(batches, limit and limit - batch_limit), release)
        return opened_reply(context, documents if projection is None else projection.apply_all(documents), source)
    bound.used()
    return whole_reply(context, documents if projection is None else projection.apply_all(documents))


def _scan_of_find(
    context: Context,
    collection: Collection,
    options: Mapping[str, Any],
    projection: Projection | None,
) -> tuple[BoundScan, StepState] | None:
    """Return `scan_at_once` of a find."""
    is_valid, collation = collation_of(collection, options.get("collation"))
    if not is_valid or (collation is not None and projection is not None and not projection.is_plain):
        return None
    sort = options.get("sort", EMPTY_DOCUMENT)
    filter_, hint = options.get("filter", EMPTY_DOCUMENT), options.get("hint")
    return scan_at_once(context, collection, filter_, sort=sort, hint=hint, collation=collation, special=True)


class _ResultLimits(NamedTuple):
    """Limits of the result: skip, limit, and documents and bytes of the first batch."""

    skip: int
    limit: int
    batch: int
    max_bytes: int


def _sorted_reply(
    context: Context,
    scan: tuple[BoundScan, StepState],
    projection: Projection | None,
    limits: _ResultLimits,
) -> Encoded | None:
    """Return the reply of a find with a blocking sort; a cursor keeps the documents beyond the first batch."""
    bound, state = scan
    batch = limits.batch
    documents = bound.documents(state.reader, limits.limit or MAX_STEP_ENTRIES + 1, state.owned, skip=limits.skip)
    if documents is None or bytes_of(documents) > min(MAX_INLINE_RESULT_BYTES, limits.max_bytes):
        return None
    projected = documents if projection is None else _project(documents, projection)
    if projected is None:
        return None
    if len(projected) < batch:
        bound.used()
        return whole_reply(context, projected)
    remaining = kept_source(projected[batch:])
    if remaining is None:
        return None
    bound.used()
    return opened_reply(context, projected[:batch], remaining)


def _projected_reply(
    context: Context, bound: BoundScan, documents: list[bytes], projection: Projection
) -> Encoded | None:
    """Return the reply with projected documents; None if the projection fails."""
    projected = _project(documents, projection)
    if projected is None:
        return None
    bound.used()
    return whole_reply(context, projected)


def _project(documents: list[bytes], projection: Projection) -> list[bytes] | None:
    """Return the projected documents; None on an error, which the general path reports."""
    try:
        return projection.apply_all(documents)
    except CommandError:
        return None


def count_at_once(context: Context, node: DataNode, arguments: Arguments) -> int | None:
    """Return the number that a count finds, from index entries or the collection's counter.

    None for the general path. Errors: as `find_at_once`.
    """
    return allowing(REFUSED, _count_at_once, context, node, arguments)


def _count_at_once(context: Context, node: DataNode, arguments: Arguments) -> int | None:
    options = arguments.sent_values()
    collection = node.store.collection(context.namespace)
    if collection is None or not options.keys() <= _COUNT_OPTIONS:
        return None
    if not options:
        return _count_of_all(context, node, collection)
    is_valid, collation = collation_of(collection, options.get("collation"))
    if not is_valid:
        return None
    filter_ = options.get("query", EMPTY_DOCUMENT)
    scan = scan_at_once(context, collection, filter_, counted=True, collation=collation)
    if scan is None:
        return None
    bound, state = scan
    count = bound.counted(state.reader, state.owned, node.clock, node.clock() + FIRST_STEP_SECONDS)
    if count is None:
        return None
    bound.used()
    remaining: int = max(0, count - options.get("skip", 0))
    limit: int = abs(options.get("limit", 0))
    return min(remaining, limit) if limit else remaining


def _count_of_all(context: Context, node: DataNode, collection: Collection) -> int | None:
    """Return the collection's counter for a count without a filter; None if it cannot be used.

    A shard uses it unless a migration may have left orphans. Documents written directly to the shard are counted too.
    """
    if node.transaction is not None or is_profiled(context):
        return None
    if node.shard_filter is not None and node.shard_filter.may_have_orphans(context.namespace):
        return None
    at_once, _ = newest(context)
    return collection.count if at_once else None


def distinct_at_once(context: Context, node: DataNode, arguments: Arguments) -> DistinctValues | None:
    """Return the values of a distinct; None for the general path. Errors: as `find_at_once`; those of the values."""
    return allowing(REFUSED, _distinct_at_once, context, node, arguments)


def _distinct_at_once(context: Context, node: DataNode, arguments: Arguments) -> DistinctValues | None:
    options = arguments.sent_values()
    collection = node.store.collection(context.namespace)
    if collection is None or not options.keys() <= _DISTINCT_OPTIONS:
        return None
    path, filter_ = options["key"], options.get("query", EMPTY_DOCUMENT)
    is_valid, collation = collation_of(collection, options.get("collation"))
    if not is_valid or (collation is not None and _is_covered_by_index(collection, path, filter_)):
        # Of values equal under the collation the first is returned, in the order of an index that is read once per
        # value.
        return None
    if filter_ == EMPTY_DOCUMENT and collation is None:
        values = values_at_once(context, collection, path)
        documents = None if values is None else values[0]
    else:
        documents = _documents_with(context, collection, path, filter_, collation)
    if documents is None:
        return None
    distinct_values = DistinctValues(path, collation)
    distinct_values.add(documents)
    return distinct_values


def _is_covered_by_index(collection: Collection, path: str, filter_: bytes) -> bool:
    """Return True if one index has the path and all fields of the filter."""
    names = {path, *(name for name, _, _ in elements(filter_) if not name.startswith("$"))}
    return any(names <= dict(index.fields).keys() for index in collection.indexes.values())


def _documents_with(
    context: Context, collection: Collection, path: str, filter_: bytes, collation: Collation | None
) -> list[bytes] | None:
    """Return the documents of a filter, or others with the same values at a path."""
    scan = scan_at_once(context, collection, filter_, collation=collation)
    if scan is None:
        return None
    bound, state = scan
    documents = None if state.owned is not None or collation is not None else bound.values_at(path, state.reader)
    if documents is None:
        documents = bound.documents(state.reader, MAX_STEP_ENTRIES + 1, state.owned)
    if documents is not None:
        bound.used()
    return documents


def values_at_once(context: Context, collection: Collection, path: str) -> tuple[list[bytes], StepState] | None:
    """Return one document per distinct value at a path, read from an index, and their state.

    None if that is impossible.
    """
    if collection.collation is not None or collection.index_filters or is_profiled(context):
        return None
    state = state_at_once(context, collection)
    if state is None or state.owned is not None:
        # Index entries do not tell which documents are owned.
        return None
    values = values_of_all(collection, path, state.reader, newest=state.newest)
    return None if values is None else (values, state)


def _projection_with_score(raw: bytes, bound: BoundScan) -> Projection | None:
    """Return the projection of a text search if it needs nothing of the request but the text score; else None."""
    first = bound.scan.first if isinstance(bound.scan, PreparedSearch) else None
    if not isinstance(first, TextSearch) or len(raw) > MAX_CACHED_PROJECTION_BYTES:
        return None
    return _projection_by(first.matcher, raw)


@lru_cache(maxsize=64)
def _projection_by(matcher: TextMatcher, raw: bytes) -> Projection | None:
    """Return the parsed projection, cached by the matcher that each search creates from its terms."""
    tree = TextSearch("", None, LOOSE, (OBJECT, EMPTY_DOCUMENT), matcher)
    try:
        projection = parse_projection(raw, query_context=new_context(), tree=tree, metadata=True)
    except CommandError:
        return None
    return projection if isinstance(projection, Projection) and metadata_kinds(projection) <= {"textScore"} else None


def plain_projection(raw: bytes) -> Projection | None:
    """Return the projection if it is short and only selects fields; else None."""
    projection = known_projection(raw)
    return projection if projection is not None and projection.is_plain else None
