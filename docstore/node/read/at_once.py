# cython: annotation_typing=False
"""Fast path for reads that are answered, with their first batch, in one step by a prepared scan.

Each function answers a whole command, or returns None with nothing done. Requests with other options (`let`, a view, a
snapshot that does not exist yet) and long scans are left to the general path, whose reply is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.known_projections import known_projection
from docstore.aggregation.limits import MAX_CACHED_PROJECTION_BYTES
from docstore.bson.build import bytes_of
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT, Value, elements
from docstore.collection.collection import Collection
from docstore.collection.limits import MAX_STEP_ENTRIES
from docstore.collection.read.prepared import BoundScan, bound_scan, values_of_all
from docstore.collection.read.taking import ScanSource, Taking, both
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

_OF_FIND = frozenset(
    (
        "filter", "sort", "projection", "skip", "limit", "batchSize", "batchBytes", "singleBatch", "hint", "collation",
    )
)  # fmt: skip
_TEXT = b"$text\0"
_OF_DISTINCT = frozenset(("key", "query", "collation"))
_OF_COUNT = frozenset(("query", "skip", "limit", "collation"))


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


def collation_of(collection: Collection, asked: bytes | None) -> tuple[bool, Collation | None]:
    """Return (True, the collation of the request or else of the collection), or (False, None) for an invalid one.

    The general path reports the error.
    """
    if asked is None or asked == EMPTY_DOCUMENT:
        return True, collection.collation
    try:
        return True, parse_collation(asked)
    except CommandError:
        return False, None


def find_at_once(context: Context, node: DataNode, arguments: Arguments, collection: Collection) -> Encoded | None:
    """Return the reply of a find. Errors: StaleConfig, those that interrupt long expressions."""
    return allowing(REFUSED, _find_at_once, context, node, arguments, collection)


def _find_at_once(context: Context, node: DataNode, arguments: Arguments, collection: Collection) -> Encoded | None:
    given = arguments.given()
    if not given.keys() <= _OF_FIND:
        return None
    projection = None
    told = given.get("projection")
    if told is not None:
        projection = known_projection(told)
        if projection is None and _TEXT not in given.get("filter", EMPTY_DOCUMENT):
            return None
    scan = _scan_of_find(context, collection, given, projection)
    if scan is None:
        return None
    bound, state = scan
    owned = state.owned
    if told is not None and projection is None:
        projection = _projection_with_score(told, bound)
        if projection is None:
            return None
    skip, limit, batch = given.get("skip", 0), given.get("limit", 0), given.get("batchSize", FIRST_BATCH_DOCUMENTS)
    if batch == 0:
        # A cursor stays in any case.
        return None
    room = given.get("batchBytes", MAX_BATCH_BYTES)
    ends = given.get("singleBatch", False) or 0 < limit <= batch
    wanted = min(limit or batch, batch)
    met: list[bytes] | None = None if ends else []
    if met is not None and bound.near is not None and collection.plans.takes_long(bound.key):
        return None
    needs = None if projection is None else kept_paths(projection)
    if met is not None and bound.scan.order is not None:
        return _sorted(context, scan, projection, _Wanted(skip, limit, batch, room))
    found = bound.documents(state.reader, wanted, owned, met, skip=skip, needs=needs)
    if found is None or (len(found) > 1 and bytes_of(found) > room):
        return None
    # A full batch leaves a cursor, even at the end of the results.
    stays = met is not None and len(found) == wanted
    if projection is not None and not projection.is_plain:
        return None if stays else _computed(context, bound, found, projection)
    if met is not None and stays:
        held, release = state.hold()
        # A covered scan records no documents in `met`: the general path serves it from the start.
        behind = bound.rest(held, found, met) if met else None
        if behind is None:
            release()
            if bound.near is not None:
                # All of them would be searched again.
                collection.plans.took_long(bound.key)
            return None
        bound.used()
        taking = Taking(
            behind, both(bound.predicate, owned), None if projection is None else projection.apply_all, node.clock
        )
        source = ReleasingSource(ScanSource(taking, limit and limit - wanted), release)
        return opened_reply(context, found if projection is None else projection.apply_all(found), source)
    bound.used()
    return whole_reply(context, found if projection is None else projection.apply_all(found))


def _scan_of_find(
    context: Context,
    collection: Collection,
    given: Mapping[str, Any],
    projection: Projection | None,
) -> tuple[BoundScan, StepState] | None:
    """Return `scan_at_once` of a find."""
    known, collation = collation_of(collection, given.get("collation"))
    if not known or (collation is not None and projection is not None and not projection.is_plain):
        return None
    sort = given.get("sort", EMPTY_DOCUMENT)
    filter_, hint = given.get("filter", EMPTY_DOCUMENT), given.get("hint")
    return scan_at_once(context, collection, filter_, sort=sort, hint=hint, collation=collation, special=True)


class _Wanted(NamedTuple):
    """Bounds of the result: skip, limit, and documents and bytes of the first batch."""

    skip: int
    limit: int
    batch: int
    room: int


def _sorted(
    context: Context,
    scan: tuple[BoundScan, StepState],
    projection: Projection | None,
    wanted: _Wanted,
) -> Encoded | None:
    """Return the reply of a find with a blocking sort; a cursor keeps the documents beyond the first batch."""
    bound, state = scan
    batch = wanted.batch
    found = bound.documents(state.reader, wanted.limit or MAX_STEP_ENTRIES + 1, state.owned, skip=wanted.skip)
    if found is None or bytes_of(found) > min(MAX_INLINE_RESULT_BYTES, wanted.room):
        return None
    made = found if projection is None else _projected(found, projection)
    if made is None:
        return None
    if len(made) < batch:
        bound.used()
        return whole_reply(context, made)
    behind = kept_source(made[batch:])
    if behind is None:
        return None
    bound.used()
    return opened_reply(context, made[:batch], behind)


def _computed(context: Context, bound: BoundScan, found: list[bytes], projection: Projection) -> Encoded | None:
    """Return the reply with projected documents; None if the projection fails."""
    made = _projected(found, projection)
    if made is None:
        return None
    bound.used()
    return whole_reply(context, made)


def _projected(found: list[bytes], projection: Projection) -> list[bytes] | None:
    """Return the projected documents; None on an error, which the general path reports."""
    try:
        return projection.apply_all(found)
    except CommandError:
        return None


def count_at_once(context: Context, node: DataNode, arguments: Arguments) -> int | None:
    """Return the number that a count finds, from index entries or the collection's counter.

    None for the general path. Errors: as `find_at_once`.
    """
    return allowing(REFUSED, _count_at_once, context, node, arguments)


def _count_at_once(context: Context, node: DataNode, arguments: Arguments) -> int | None:
    given = arguments.given()
    collection = node.store.collection(context.namespace)
    if collection is None or not given.keys() <= _OF_COUNT:
        return None
    if not given:
        return _count_of_all(context, node, collection)
    known, collation = collation_of(collection, given.get("collation"))
    if not known:
        return None
    filter_ = given.get("query", EMPTY_DOCUMENT)
    scan = scan_at_once(context, collection, filter_, counted=True, collation=collation)
    if scan is None:
        return None
    bound, state = scan
    counted = bound.counted(state.reader, state.owned, node.clock, node.clock() + FIRST_STEP_SECONDS)
    if counted is None:
        return None
    bound.used()
    left: int = max(0, counted - given.get("skip", 0))
    limit: int = abs(given.get("limit", 0))
    return min(left, limit) if limit else left


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
    given = arguments.given()
    collection = node.store.collection(context.namespace)
    if collection is None or not given.keys() <= _OF_DISTINCT:
        return None
    path, filter_ = given["key"], given.get("query", EMPTY_DOCUMENT)
    known, collation = collation_of(collection, given.get("collation"))
    if not known or (collation is not None and _may_be_told(collection, path, filter_)):
        # Of values equal under the collation the first is returned, in the order of an index that is read once per
        # value.
        return None
    if filter_ == EMPTY_DOCUMENT and collation is None:
        every = values_at_once(context, collection, path)
        documents = None if every is None else every[0]
    else:
        documents = _documents_with(context, collection, path, filter_, collation)
    if documents is None:
        return None
    found = DistinctValues(path, collation)
    found.add(documents)
    return found


def _may_be_told(collection: Collection, path: str, filter_: bytes) -> bool:
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
