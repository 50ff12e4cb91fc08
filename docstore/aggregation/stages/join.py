"""Batched equality joins of `$lookup`, with the rest of its pipeline.

One query reads the partners of a batch of documents into a table; batches shrink if partners are large. A multikey
index would return partners in another order than single queries do. Then the other collection is queried per document,
with a bounded cache of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.stages.foreign import equal_to_any, in_values, other_collections
from docstore.aggregation.stages.lookup_result import LookupResult
from docstore.aggregation.streams import CLOCK_EVERY, GIVEN_BYTES, DocumentList, Stream
from docstore.bson.walk import ARRAY, NULL, REGEX, UNDEFINED, Value, get_field, values
from docstore.buffers import SMALL_BYTES
from docstore.kernel.group.partners import KeyedDocuments, plain_keys
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.match.predicate import Predicate
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter

BATCH = 1000
"""Maximum documents per query for partners."""

_FIRST_BATCH = 64
"""Documents of the first batch if an index serves it: few may be requested."""

_TABLE_BYTES = 16 * 1024 * 1024
"""Bytes of a batch's partners above which the next batch is smaller."""

_CACHED_BYTES = 16 * 1024 * 1024
_PER_ENTRY = 200

Ask = Callable[[list[Value]], Iterator[bytes]]


Let = tuple[tuple[str, Evaluate], ...]
"""The variables of `let`, as functions of a document."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """An equality with another collection: partners of a document have one of its `values` at `path`.

    `all`: the pipeline that reads the other collection. `remainder`: the pipeline over the partners of each document,
    while `variables` hold the values of `let`. `variable`: the variable that the field must equal, under expression
    comparison, and `values` has its value; without one, `values` are those at `local`.
    """

    collection: str
    path: str
    values: Callable[[bytes], list[Value]]
    all: Pipeline
    remainder: Pipeline
    let: Let
    variables: dict[str, Value | None]
    local: str | None = None
    variable: str | None = None

    @property
    def runs_on(self) -> bool:
        """True if the partners of each document are processed before they are joined."""
        return bool(self.remainder.stages) or self.variable is not None


class BatchJoin:
    """Joins documents with their partners in batches.

    The output of `remainder` for one document is reused for others of the batch, if it depends only on the partners.
    """

    def __init__(self, result: LookupResult, keyed: Keyed, source: Stream, environment: Environment) -> None:
        self._result = result
        self._keyed = keyed
        self._inner: Stream | None = None
        self._made: list[bytes] = []
        self._results: dict[tuple[Value, ...], list[bytes]] = {}
        self._source = source
        self._environment = environment
        self._collection = keyed.collection
        self._path = keyed.path
        self._query_context = keyed.all.query_context
        ordering = self._query_context.ordering
        self._key_of = ordering.key
        self._local = None if keyed.local is None else KeyPattern([(keyed.local, 1)], ordering.fold)
        self._plain = None if keyed.runs_on else result.plain_join()
        self._given: list[bytes] = []
        self._at = 0
        self._last = False
        self._asking: Ask | None = None
        self._reading: Stream | None = None
        self._table = Table(keyed.path, self._query_context)
        self._batch = BATCH
        self._ahead: list[bytes] = []
        self._ended = False
        self._opened = False
        self._joining = False
        self._finding: Iterator[bytes] | None = None
        self._found: list[bytes] = []
        self._single: Value | None = None
        self._known: dict[Value, list[bytes]] = {}
        self._wanted: list[list[Value] | None] = []
        """The join values of the documents read so far."""
        self._keys: list[bytes | None] = []
        """The key of a document's only join value, if key equality decides."""
        self._by_keys: Callable[[list[bytes]], Stream] | None = None
        self._held = 0

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        if not self._opened:
            self._opened = True
            foreign = other_collections(self._environment)
            served = foreign.equality(self._collection, self._path, self._query_context.collation)
            if served is not None:
                self._batch = _FIRST_BATCH
                self._asking = served.query
                self._by_keys = served.by_keys
        if self._asking is None and not self._prepare(deadline):
            return [], False
        if self._asking is not None and self._at == len(self._given):
            self._given, self._last = self._source.next_batch(deadline)
            self._at = 0
            if not self._given:
                return [], self._last
            self._wanted = [None] * len(self._given)
            self._results = {}
        return self._join(self._asking or self._table.find, deadline)

    def _join(self, find: Ask, deadline: float) -> tuple[list[bytes], bool]:
        batch: list[bytes] = []
        size = 0
        clock, joined = self._environment.clock, self._result.joined
        runs_on = self._keyed.runs_on
        plain = self._plain if self._asking is None else None
        while self._at < len(self._given):
            if plain is not None and self._finding is None and self._keys[self._at] is not None:
                start = self._at
                self._at, grown = plain.join(
                    self._given, self._keys, start, self._table, batch, GIVEN_BYTES - size, clock, deadline
                )
                size += grown
                if self._at == len(self._given) or size >= GIVEN_BYTES or clock() >= deadline:
                    break
                if self._at > start:
                    continue
            document = self._given[self._at]
            matches = self._matches(find, deadline) if self._inner is None else []
            if matches is not None and runs_on:
                matches = self._run_over(document, matches, deadline)
            if matches is None:
                return batch, False
            results = joined(document, matches)
            batch += results
            size += sum(map(len, results))
            self._at += 1
            if size >= GIVEN_BYTES or clock() >= deadline:
                break
        return batch, self._last and self._at == len(self._given)

    def _matches(self, find: Ask, deadline: float) -> list[bytes] | None:
        """Return the partners of the current document; None while they are incomplete."""
        if self._finding is None:
            if self._asking is None and (key := self._keys[self._at]) is not None:
                return self._table.with_key(key)
            join_values = self._join_values_of(self._at)
            self._single = join_values[0] if len(join_values) == 1 else None
            partners = self._known.get(self._single) if self._single is not None else None
            if partners is not None:
                return partners
            self._finding = find(join_values)
            self._found = []
        for match in self._finding:
            self._found.append(match)
            if len(self._found) % CLOCK_EVERY == 0 and self._environment.clock() >= deadline:
                return None
        self._finding = None
        self._remember()
        return self._found

    def _run_over(self, document: bytes, partners: list[bytes], deadline: float) -> list[bytes] | None:
        """Return the output of `remainder` for the partners of the current document; None while it is incomplete."""
        keyed = self._keyed
        join_values = tuple(self._join_values_of(self._at))
        if self._inner is None:
            output = None if keyed.let else self._results.get(join_values)
            if output is not None:
                return output
            scope = Scope(document)
            keyed.variables.update({name: evaluate(scope) for name, evaluate in keyed.let})
            if keyed.variable is not None:
                partners = self._equal(partners, keyed.variables[keyed.variable])
                if not keyed.remainder.stages:
                    return partners
            self._made = []
            self._inner = keyed.remainder.open(DocumentList(partners), self._environment)
        while True:
            documents, last = self._inner.next_batch(deadline)
            self._made += documents
            if last:
                self._inner = None
                if not keyed.let:
                    self._results[join_values] = self._made
                return self._made
            if not documents or self._environment.clock() >= deadline:
                return None

    def _equal(self, partners: list[bytes], value: Value | None) -> list[bytes]:
        """Return the partners whose field equals the value under expression comparison: arrays as values, missing is
        not null.
        """
        pairs = ((partner, get_field(partner, self._path)) for partner in partners)
        if value is None:
            return [partner for partner, own in pairs if own is None]
        key = self._key_of(value)
        return [partner for partner, own in pairs if own is not None and self._key_of(own) == key]

    def _remember(self) -> None:
        """Cache the partners of a single value, within the memory bound."""
        if self._single is None or self._asking is None:
            return
        size = _PER_ENTRY + len(self._single[1]) + sum(map(len, self._found))
        buffers = self._environment.buffers
        if self._held + size > _CACHED_BYTES or buffers.crowded:
            self._known.clear()
            buffers.change(-self._held)
            self._held = 0
        self._known[self._single] = self._found
        self._held += size
        buffers.change(size)

    def _gather(self, deadline: float) -> bool:
        """Collect the documents of the next batch; False while it is incomplete."""
        while True:
            room = self._batch - len(self._given)
            self._given += self._ahead[:room]
            self._ahead = self._ahead[room:]
            if self._ended or len(self._given) == self._batch:
                self._last = self._ended and not self._ahead
                return True
            self._ahead, self._ended = self._source.next_batch(deadline)
            if not self._ahead and not self._ended:
                return False

    def _prepare(self, deadline: float) -> bool:
        """Prepare a batch of documents and the table of their partners."""
        if self._reading is None:
            if self._joining and self._at < len(self._given):
                return True
            if self._joining:
                self._joining = False
                self._given, self._at = [], 0
                buffers = self._environment.buffers
                large = self._table.size > (SMALL_BYTES if buffers.crowded else _TABLE_BYTES)
                buffers.change(-self._table.size)
                self._batch = max(1, self._batch // 2) if large else min(BATCH, self._batch * 2)
            if not self._gather(deadline):
                return False
            self._wanted = [None] * len(self._given)
            self._results = {}
            self._table = Table(self._path, self._query_context)
            self._reading = self._query()
        while True:
            documents, last = self._reading.next_batch(deadline)
            before = self._table.size
            self._table.add(documents)
            self._environment.buffers.change(self._table.size - before)
            if last:
                self._reading = None
                self._joining = True
                return True
            if not documents or self._environment.clock() >= deadline:
                return False

    def _join_values_of(self, position: int) -> list[Value]:
        """Return the join values of a document in the batch."""
        join_values = self._wanted[position]
        if join_values is None:
            join_values = self._wanted[position] = self._keyed.values(self._given[position])
        return join_values

    def _unkeyed_values(self, keys: list[bytes | None]) -> dict[bytes, Value]:
        """Return the join values of documents without a key in `keys`, by their keys."""
        values_by_key: dict[bytes, Value] = {}
        for position, plain_key in enumerate(keys):
            if plain_key is None:
                join_values = self._join_values_of(position)
                for value in join_values:
                    key = self._key_of(value)
                    values_by_key[key] = value
                self._keys[position] = key if len(join_values) == 1 and value[0] not in _TESTED else None
        return values_by_key

    def _query(self) -> Stream:
        """Return the partners of a batch."""
        none: list[bytes | None] = [None] * len(self._given)
        keys = none if self._local is None else plain_keys(self._local, self._given)
        self._keys = list(keys)
        if self._by_keys is not None:
            values_by_key = self._unkeyed_values(keys)
            if _NO_POINTS.isdisjoint([value[0] for value in values_by_key.values()]):
                return self._by_keys(sorted(values_by_key.keys() | set(filter(None, keys))))
        values_by_key = self._unkeyed_values(none)
        match = equal_to_any(self._path, list(values_by_key.values()), self._query_context.collation)
        return other_collections(self._environment).open(self._collection, self._keyed.all.starting_with(match))


class Table(KeyedDocuments):
    """Documents by the values at a path."""

    def __init__(self, path: str, query_context: QueryContext) -> None:
        ordering = query_context.ordering
        super().__init__(path, ordering.fold)
        self._path = path
        self._collation = query_context.collation
        self._key_of = ordering.key

    def find(self, join_values: list[Value]) -> Iterator[bytes]:
        """Return the documents that have one of the values."""
        positions: set[int] = set()
        for value in join_values:
            positions.update(self._candidates(value))
        return (self.documents[position] for position in sorted(positions))

    def _candidates(self, value: Value) -> list[int]:
        if value[0] not in _TESTED:
            return self.positions_of(self._key_of(value))
        predicate: Predicate = compile_filter(in_values(self._path, [value], self._collation))
        positions: set[int] = set()
        if value[0] == ARRAY:
            members = values(value[1])
            keys = [self._key_of(value), self._key_of(members[0]) if members else _UNDEFINED_KEY]
        else:
            keys = [_NULL_KEY, _UNDEFINED_KEY]
        for key in keys:
            positions.update(self.positions_of(key))
        return [position for position in positions if predicate.matches(self.documents[position])]


_NULL_KEY = encode_key((NULL, b""))
_UNDEFINED_KEY = encode_key((UNDEFINED, b""))
_TESTED = frozenset((ARRAY, NULL, UNDEFINED))
"""Value types whose equality is not key equality."""
_NO_POINTS = _TESTED | {REGEX}
"""Value types that queries do not treat as points."""
