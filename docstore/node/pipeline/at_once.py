"""Pipelines over few documents, answered in a step: a `$match` of a prepared form, and stages that were parsed before.

An application sends the same stages behind a `$match` (and a `$sort`, and a `$limit`) with other values. The stages are
parsed once for all requests of the process, in a context that knows nothing of a request: whatever depends on one (the
time, random numbers, scripts, variables) is refused there, and left to the general way. So is every request that ends
with an error, or takes more than a step. Nothing else runs in between: what the stages hold while they
work is theirs alone. A `$lookup` by an equality that an index serves reads the other collection in the same step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.pipeline import Pipeline, parse_pipeline
from docstore.aggregation.stage import Environment, Equality, Stream
from docstore.aggregation.stages.foreign import equal_to_any
from docstore.aggregation.stages.lookup import Lookup
from docstore.aggregation.streams import DocumentList
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, INT32, OBJECT, Value, elements, values
from docstore.buffers import OperationBuffers
from docstore.collection.collection import Collection
from docstore.collection.read.prepared import MOST_LOOKS, BoundScan, bound_scan
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.pipeline.count import CountedGroup, counted_group
from docstore.node.read.at_once import scan_of_newest
from docstore.node.read.cursors import FIRST_BATCH_DOCUMENTS, cursor_reply, opened_reply
from docstore.node.read.sources import ListSource
from docstore.query.value.collation import Collation

_GIVEN = frozenset(("pipeline", "cursor"))
_STAGES = frozenset(
    (
        "$addFields", "$bucket", "$count", "$facet", "$fill", "$group", "$limit", "$lookup", "$match", "$project",
        "$redact", "$replaceRoot", "$replaceWith", "$set", "$setWindowFields", "$skip", "$sort", "$sortByCount",
        "$unset", "$unwind",
    )
)  # fmt: skip
"""Those that are about the documents in front of them and nothing else, but for the partners of a `$lookup`."""
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
    collection = node.store.collection(namespace)
    if collection is None or not arguments.given().keys() <= _GIVEN:
        return None
    stages: list[bytes] = arguments["pipeline"]
    if context.api_strict or context.begun_progress is not None or not stages or arguments["cursor"] is None:
        return None
    first = elements(stages[0])
    if len(first) != 1 or first[0][:2] != ("$match", OBJECT):
        return None
    behind = _parsed(tuple(stages[1:])) if sum(map(len, stages)) <= _MOST_BYTES else None
    batch = batch_size_of(arguments)
    if behind is None or batch == 0:
        return None
    counted = behind.counted is not None
    scan = scan_of_newest(context, node, collection, first[0][2], sort=behind.sort, counted=counted)
    if scan is None:
        return None
    bound, owned = scan
    others = Partners(node, context.db)
    documents = _documents(node, bound, behind, owned, others)
    size = FIRST_BATCH_DOCUMENTS if batch is None else batch
    if documents is None or len(documents) == size:
        # Of a batch that is just full the general way knows whether a cursor stays.
        return None
    if sum(map(len, documents)) > _MOST_GIVEN_BYTES:
        return None
    bound.used()
    others.used()
    if len(documents) > size:
        return opened_reply(context, documents[:size], ListSource(documents[size:]))
    return cursor_reply(documents, 0, namespace)


class _More(Exception):
    """It takes more than a step, or something that this way does not have."""


class Partners:
    """The other collections of a database, in the newest state, as far as what is asked for is prepared. Serves
    `docstore.aggregation.stage.Foreign` for equalities.
    """

    __slots__ = ("_bound", "_db", "_node")

    def __init__(self, node: DataNode, db: str) -> None:
        self._node = node
        self._db = db
        self._bound: list[BoundScan] = []

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


def _documents(
    node: DataNode, bound: BoundScan, behind: _Stages, owned: Predicate | None, others: Partners
) -> list[bytes] | None:
    """What comes out of the stages; None where that takes more than a step."""
    until = node.clock() + _LONGEST_STEP
    if behind.counted is not None:
        count = bound.counted(node.engine, owned, node.clock, until)
        if count is None:
            return None
        found: list[bytes] | None = behind.counted.documents(count)
    else:
        found = bound.documents(node.engine, behind.limit or MOST_LOOKS + 1, owned)
    if found is None or not behind.pipeline.stages:
        return found
    buffers = OperationBuffers()
    try:
        environment = Environment(clock=node.clock, buffers=buffers, foreign=others)
        stream = behind.pipeline.open(DocumentList(found), environment)
        documents: list[bytes] = []
        ended = False
        while not ended:
            more, ended = stream.next_batch(until)
            documents += more
            if not ended and node.clock() >= until:
                return None
    except (CommandError, _More):
        # The general way ends with an error too, where it does not find room.
        return None
    finally:
        buffers.close()
    return documents


@lru_cache(maxsize=256)
def _parsed(stages: tuple[bytes, ...]) -> _Stages | None:
    """The stages behind a `$match`; None where they are not of the kind that this module is about."""
    if not all(map(_is_plain, stages)):
        return None
    specifications = [elements(raw) for raw in stages]
    sort, limit, taken = EMPTY_DOCUMENT, 0, 0
    if specifications and specifications[0][0][:2] == ("$sort", OBJECT):
        sort, taken = specifications[0][0][2], 1
    if len(specifications) > taken and specifications[taken][0][:2] == ("$limit", INT32):
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
    counted = counted_group(pipeline.stages) if taken == 0 else None
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
