"""Pipelines over few documents, answered in a step: a `$match` of a prepared form, and stages that were parsed before.

An application sends the same stages behind a `$match` (and a `$sort`, and a `$limit`) with other values. The stages are
parsed once for all requests of the process, in a context that knows nothing of a request: whatever depends on one (the
time, random numbers, scripts, variables) is refused there, and left to the general way. So is every request that ends
with an error, or takes more than a step. Nothing else runs in between: what the stages hold while they
work is theirs alone. A `$lookup` by an equality that an index serves reads the other collection in the same step, and
so does a `$unionWith` whose pipeline is one of these. A view is read as the stages that it stands for: `$match` stages
that follow each other are one filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.pipeline import Pipeline, parse_pipeline
from docstore.aggregation.stage import Environment, Equality, Stream
from docstore.aggregation.stages.foreign import equal_to_any
from docstore.aggregation.stages.lookup import Lookup
from docstore.aggregation.streams import DocumentList
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, INT32, OBJECT, STRING, Value, elements, values
from docstore.buffers import OperationBuffers
from docstore.collection.catalog.views import ResolvedView, resolve_view
from docstore.collection.collection import Collection
from docstore.collection.read.prepared import MOST_LOOKS, BoundScan, bound_scan
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.requests.view_stages import find_stages
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.pipeline.count import CountedGroup, counted_group
from docstore.node.read.at_once import scan_of_newest
from docstore.node.read.cursors import FIRST_BATCH_DOCUMENTS, cursor_reply, opened_reply
from docstore.node.read.sources import ListSource
from docstore.query.value.collation import Collation
from docstore.query.value.values import text_of

_GIVEN = frozenset(("pipeline", "cursor"))
_OF_FIND = frozenset(("filter", "sort", "projection", "skip", "limit", "batchSize"))
_STAGES = frozenset(
    (
        "$addFields", "$bucket", "$count", "$facet", "$fill", "$group", "$limit", "$lookup", "$match", "$project",
        "$redact", "$replaceRoot", "$replaceWith", "$set", "$setWindowFields", "$skip", "$sort", "$sortByCount",
        "$unset", "$unwind",
    )
)  # fmt: skip
"""Those that are about the documents in front of them and nothing else, but for the partners of a `$lookup`."""
_MATCH, _UNION = b"$match\0", b"$unionWith\0"
_NAME_AT = 5
"""Where the name of a stage stands in its document."""
_MOST_BYTES = 4096
_MOST_GIVEN_BYTES = 1 << 20
_LONGEST_STEP = 0.05
"""Seconds after which a step gives up and all is done anew the general way. It is far more than what reads so few
documents takes, also where a machine has much else to do: what makes much out of them is meant.
"""


@dataclass(frozen=True, slots=True)
class _Stages:
    """What stands behind the `$match` of a pipeline: an order (its specification) and a limit (0: none) that belong to
    its find, the stages, and the group in front of them that is nothing but a count.
    """

    sort: bytes
    limit: int
    pipeline: Pipeline
    counted: CountedGroup | None


def aggregate_at_once(context: Context, node: DataNode, arguments: Arguments, namespace: str) -> bytes | None:
    """The reply of an aggregate whose documents are all found in a step, what the first batch does not hold being kept
    for the next; None, with nothing done, where this way has none.
    """
    stages: list[bytes] = arguments["pipeline"]
    if not arguments.given().keys() <= _GIVEN or not stages or arguments["cursor"] is None:
        return None
    if namespace in node.store.catalog.collections:
        return _at_once(context, node, namespace, stages, batch_size_of(arguments))
    resolved = _view(node, namespace)
    if resolved is None:
        return None
    return _at_once(context, node, resolved.ns, [*resolved.pipeline, *stages], batch_size_of(arguments))


def find_on_view_at_once(
    context: Context, node: DataNode, arguments: Arguments, resolved: ResolvedView
) -> bytes | None:
    """The same of a find on a view."""
    if node.shard_filter is not None or resolved.collation is not None or not arguments.given().keys() <= _OF_FIND:
        return None
    stages = [*resolved.pipeline, *find_stages(arguments)]
    return _at_once(context, node, resolved.ns, stages, arguments["batchSize"])


def _view(node: DataNode, namespace: str) -> ResolvedView | None:
    """What a view stands for; None where there is none, or that is not all that has to be known to read it."""
    if node.shard_filter is not None:
        return None
    try:
        resolved = resolve_view(node.store, namespace)
    except CommandError:
        return None
    return None if resolved is None or resolved.collation is not None else resolved


def _at_once(
    context: Context, node: DataNode, namespace: str, stages: Sequence[bytes], batch: int | None
) -> bytes | None:
    """The reply of stages over a collection. `batch`: how many documents the first batch holds (None: as usual)."""
    collection = node.store.collection(namespace)
    if collection is None or context.api_strict or context.begun_progress is not None or batch == 0:
        return None
    pieces = _pieces(stages)
    if pieces is None:
        return None
    filter_, behind, more = pieces
    counted = behind.counted is not None
    scan = scan_of_newest(context, node, collection, filter_, sort=behind.sort, counted=counted)
    if scan is None:
        return None
    bound, owned = scan
    step = _Step(node, context.db)
    try:
        documents = step.documents(bound, owned, behind)
        for union, next_stages in more:
            documents += step.united(union)
            documents = step.through(documents, next_stages.pipeline)
    except (CommandError, _More):
        # The general way ends with an error too, where it does not find room.
        return None
    size = FIRST_BATCH_DOCUMENTS if batch is None else batch
    if len(documents) == size or sum(map(len, documents)) > _MOST_GIVEN_BYTES:
        # Of a batch that is just full the general way knows whether a cursor stays.
        return None
    bound.used()
    step.used()
    if len(documents) > size:
        return opened_reply(context, documents[:size], ListSource(documents[size:]))
    return cursor_reply(documents, 0, context.namespace)


class _More(Exception):
    """It takes more than a step, or something that this way does not have."""


class _Step:
    """The work of one request, over the newest state. Of the other collections of the database it has what is prepared;
    serves `docstore.aggregation.stage.Foreign` for equalities. Methods raise `_More`, and CommandError.
    """

    __slots__ = ("_bound", "_db", "_node", "_until")

    def __init__(self, node: DataNode, db: str) -> None:
        self._node = node
        self._db = db
        self._until = node.clock() + _LONGEST_STEP
        self._bound: list[BoundScan] = []

    def documents(self, bound: BoundScan, owned: Predicate | None, behind: _Stages) -> list[bytes]:
        """What comes out of the stages behind a scan."""
        node = self._node
        if behind.counted is not None:
            count = bound.counted(node.engine, owned, node.clock, self._until)
            if count is None:
                raise _More
            return self.through(behind.counted.documents(count), behind.pipeline)
        found = bound.documents(node.engine, behind.limit or MOST_LOOKS + 1, owned)
        if found is None:
            raise _More
        return self.through(found, behind.pipeline)

    def through(self, given: list[bytes], pipeline: Pipeline) -> list[bytes]:
        """What stages make of documents."""
        if not pipeline.stages:
            return given
        node = self._node
        buffers = OperationBuffers()
        try:
            environment = Environment(clock=node.clock, buffers=buffers, foreign=self)
            stream = pipeline.open(DocumentList(given), environment)
            documents: list[bytes] = []
            ended = False
            while not ended:
                more, ended = stream.next_batch(self._until)
                documents += more
                if not ended and node.clock() >= self._until:
                    raise _More
        finally:
            buffers.close()
        return documents

    def united(self, union: bytes) -> list[bytes]:
        """The documents of a `$unionWith`, which is given as what stands in it."""
        fields = {name: (code, data) for name, code, data in elements(union)}
        coll, pipeline = fields.pop("coll", None), fields.pop("pipeline", None)
        if fields or coll is None or coll[0] != STRING or pipeline is None or pipeline[0] != ARRAY:
            raise _More
        stages = values(pipeline[1])
        pieces = _pieces([raw for _, raw in stages]) if all(code == OBJECT for code, _ in stages) else None
        if pieces is None or pieces[2]:
            raise _More
        filter_, behind, _ = pieces
        collection = self._collection(text_of(coll))
        counted = behind.counted is not None
        bound = bound_scan(collection, filter_, self._node.engine, sort=behind.sort, counted=counted)
        if bound is None:
            raise _More
        self._bound.append(bound)
        return self.documents(bound, None, behind)

    def used(self) -> None:
        """Note that a request has been answered by the indexes."""
        for bound in self._bound:
            bound.used()

    def open(self, namespace: str, pipeline: Pipeline) -> Stream:
        """The output of a pipeline that is nothing but a filter."""
        (match,) = pipeline.stages
        found = self._found(self._collection(namespace), match.raw)
        return DocumentList(found)

    def equality(self, namespace: str, path: str, collation: Collation | None) -> Equality | None:
        """By one query for many documents, unless an index has several entries for a document."""
        del collation
        collection = self._collection(namespace)
        if any(index.multikey and index.spec.fields[0][0] == path for index in collection.indexes.values()):
            return Equality(partial(self._equal, collection, path))
        return None

    def _equal(self, collection: Collection, path: str, values: list[Value]) -> Iterator[bytes]:
        return iter(self._found(collection, equal_to_any(path, values, None).raw))

    def _collection(self, name: str) -> Collection:
        collection = self._node.store.collection(f"{self._db}.{name}")
        if collection is None or collection.collation is not None:
            raise _More
        return collection

    def _found(self, collection: Collection, match: bytes) -> list[bytes]:
        bound = bound_scan(collection, elements(match)[0][2], self._node.engine)
        found = None if bound is None else bound.documents(self._node.engine, MOST_LOOKS + 1, None)
        if bound is None or found is None:
            raise _More
        self._bound.append(bound)
        return found


_Pieces = tuple[bytes, _Stages, list[tuple[bytes, _Stages]]]
"""(the filter in front, the stages behind it, what stands in each `$unionWith` and the stages behind that)."""


def _pieces(stages: Sequence[bytes]) -> _Pieces | None:
    """A pipeline taken apart; None where it is not of the kind that this module is about."""
    if not stages or sum(map(len, stages)) > _MOST_BYTES:
        return None
    filter_ = _of_stage(stages[0], _MATCH)
    if filter_ is None:
        return None
    at = 1
    while at < len(stages) and (more := _of_stage(stages[at], _MATCH)) is not None:
        both = _both(filter_, more)
        if both is None:
            break
        filter_ = both
        at += 1
    unions = [place for place in range(at, len(stages)) if stages[place].startswith(_UNION, _NAME_AT)]
    ends = [*unions, len(stages)]
    behind = _parsed(tuple(stages[at : ends[0]]), in_front=True)
    if behind is None:
        return None
    others: list[tuple[bytes, _Stages]] = []
    for place, end in zip(unions, ends[1:], strict=True):
        union, following = _of_stage(stages[place], _UNION), _parsed(tuple(stages[place + 1 : end]), in_front=False)
        if union is None or following is None:
            return None
        others.append((union, following))
    return filter_, behind, others


def _of_stage(stage: bytes, name: bytes) -> bytes | None:
    """What stands in a stage of this name; None for other stages, and where that is no document."""
    if not stage.startswith(name, _NAME_AT):
        return None
    fields = elements(stage)
    return fields[0][2] if len(fields) == 1 and fields[0][1] == OBJECT else None


def _both(one: bytes, other: bytes) -> bytes | None:
    """A filter that says what both say; None where both say something of the same field."""
    fields, more = elements(one), elements(other)
    if not {name for name, _, _ in fields}.isdisjoint(name for name, _, _ in more):
        return None
    return document_from([*fields, *more])


@lru_cache(maxsize=256)
def _parsed(stages: tuple[bytes, ...], *, in_front: bool) -> _Stages | None:
    """The stages behind the `$match` in front, or behind a `$unionWith`; None where they are not of the kind that this
    module is about.
    """
    if not all(map(_is_plain, stages)):
        return None
    specifications = [elements(raw) for raw in stages]
    sort, limit, taken = EMPTY_DOCUMENT, 0, 0
    if in_front and specifications and specifications[0][0][:2] == ("$sort", OBJECT):
        sort, taken = specifications[0][0][2], 1
    if in_front and len(specifications) > taken and specifications[taken][0][:2] == ("$limit", INT32):
        limit = int.from_bytes(specifications[taken][0][2], "little", signed=True)
        taken += 1
    try:
        # As a whole first: what is refused is refused by all of it.
        parse_pipeline(stages, query_context=new_context())
        pipeline = parse_pipeline(stages[taken:], query_context=new_context())
    except CommandError:
        return None
    if any(isinstance(stage, Lookup) and stage.keyed is None for stage in pipeline.stages):
        return None
    counted = counted_group(pipeline.stages) if in_front and taken == 0 else None
    if counted is not None:
        pipeline = Pipeline(pipeline.stages[1:], pipeline.query_context)
    return _Stages(sort, limit, pipeline, counted)


def _is_plain(stage: bytes) -> bool:
    """Whether a stage and those inside it are of the kind that this module is about."""
    fields = elements(stage)
    if len(fields) != 1 or fields[0][0] not in _STAGES:
        return False
    name, code, data = fields[0]
    if code != OBJECT or name not in ("$facet", "$lookup"):
        return True
    inner = [stages for _, code, stages in elements(data) if code == ARRAY]
    return all(code == OBJECT and _is_within(raw) for stages in inner for code, raw in values(stages))


def _is_within(stage: bytes) -> bool:
    """The same of a stage that is inside another: partners are looked for from the outermost pipeline alone."""
    return _is_plain(stage) and elements(stage)[0][0] not in ("$facet", "$lookup")
