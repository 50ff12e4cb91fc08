"""`$sort` in memory: sorted runs, merged as they are read; with a `$limit` after it, a top-k sort."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.field_dependencies import ANY_FIELD, FieldDependencies
from docstore.aggregation.sorted_runs import RUN_LENGTH, SortedRuns
from docstore.aggregation.stage import Declaration, Environment, PlainStage, SplitStage, Stage
from docstore.aggregation.stages.limit import leading_limit
from docstore.aggregation.streams import CLOCK_EVERY, GIVEN_BYTES, StageRun
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, Value, get_field
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import KEY_OF_NULL
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.scan.pairs import items_of
from docstore.kernel.scan.sort import FirstDocuments
from docstore.query.context import QueryContext
from docstore.query.find import FindQuery
from docstore.query.metadata import keyed_by
from docstore.query.sort import Sort, sort_by
from docstore.query.value.ordering import Ordering, ordering_of

_CHECK_EVERY = 4
"""Pushes between two checks of the memory of a top-k sort."""


@dataclass(frozen=True, slots=True)
class SortStage(PlainStage):
    """The stage. `limit`: from a `$limit` after it; no more documents will be requested."""

    raw: bytes
    sort: Sort
    limit: int | None = None

    keeps_documents = True
    commutes_with_filters = True

    @property
    def field_dependencies(self) -> FieldDependencies:
        return ANY_FIELD if self.sort.measures else FieldDependencies({top(path) for path, _ in self.sort.fields})

    def in_find(self, query: FindQuery, *, with_sort: bool) -> FindQuery | None:
        if not with_sort or query.sort or query.skip or query.limit:
            return None
        return replace(query, sort=self.sort)

    def fuse_with(self, following: Sequence[Stage]) -> tuple[Stage, int] | None:
        return replace(self, limit=leading_limit(following)), 0

    def split(self) -> SplitStage | None:
        return SplitStage(self.raw, order=self.sort)

    def start(self, environment: Environment) -> StageRun:
        if self.sort.fields == (("_id", 1),):
            return _SortRun(partial(_keyed_by_id, ordering_of(self.sort.collation)), environment)
        pattern = self.sort.pattern()
        if isinstance(pattern, KeyPattern) and self.limit is not None and self.limit <= RUN_LENGTH:
            return _FirstRun(pattern, self.limit, environment)
        return _SortRun(partial(keyed_by, pattern), environment)


def _keyed_by_id(ordering: Ordering, documents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the keys of a sort by `_id` alone: arrays compare as a whole, since no stored `_id` is one."""
    pairs = [(get_field(document, "_id"), document) for document in documents]
    key_of = ordering.key
    return [(KEY_OF_NULL if value is None else key_of(value), document) for value, document in pairs]


class _SortRun:
    """A sort of all documents; `keyed` returns their keys."""

    satisfied = False

    def __init__(self, keyed: Callable[[Iterable[bytes]], list[tuple[bytes, bytes]]], environment: Environment) -> None:
        self._keyed = keyed
        self._sorted = SortedRuns("$sort", environment)
        self._clock = environment.clock
        self._output: Iterator[list[bytes]] | None = None

    def push(self, documents: list[bytes]) -> list[bytes]:
        self._sorted.add(self._keyed(documents))
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._output is None:
            self._output = self._documents()
        batch: list[bytes] = []
        size = 0
        for some in self._output:
            batch += some
            size += sum(map(len, some))
            if size >= GIVEN_BYTES or self._clock() >= deadline:
                return batch, False
        return batch, True

    def _documents(self) -> Iterator[list[bytes]]:
        for piece in self._sorted.pieces():
            if not piece:
                yield []
            for start in range(0, len(piece), CLOCK_EVERY):
                yield items_of(piece[start : start + CLOCK_EVERY])


class _FirstRun:
    """A top-k sort: holds only the first documents."""

    satisfied = False

    def __init__(self, pattern: KeyPattern, limit: int, environment: Environment) -> None:
        self._first = FirstDocuments(pattern, limit)
        self._pattern = pattern
        self._environment = environment
        self._pushed = self._held = 0
        self._all: _SortRun | None = None
        """A full sort in its place, once the first documents exceed memory."""

    def push(self, documents: list[bytes]) -> list[bytes]:
        if self._all is not None:
            return self._all.push(documents)
        self._first.push(documents)
        self._pushed += 1
        if self._pushed % _CHECK_EVERY == 0:
            self._look()
        return []

    def _look(self) -> None:
        """Account for the memory held. Above the limit, switch to a full sort; the `$limit` stage follows anyway."""
        held_bytes = self._first.memory
        self._environment.buffers.change(held_bytes - self._held)
        self._held = held_bytes
        if held_bytes > self._environment.memory_limit:
            self._sort_all()

    def _sort_all(self) -> _SortRun:
        self._environment.buffers.change(-self._held)
        self._held = 0
        self._all = _SortRun(partial(keyed_by, self._pattern), self._environment)
        first = self._first.documents()
        self._first = FirstDocuments(self._pattern, 1)
        for start in range(0, len(first), CLOCK_EVERY):
            self._all.push(first[start : start + CLOCK_EVERY])
        return self._all

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._all is None and self._first.memory <= GIVEN_BYTES:
            return self._first.documents(), True
        return (self._all or self._sort_all()).finish(deadline)


def parse_sort(value: Value, query_context: QueryContext) -> SortStage:
    """Parse the stage."""
    if value[0] != OBJECT:
        raise CommandError(15973, "the $sort key specification must be an object")
    sort = sort_by(value[1], query_context, query_context.measures)
    if not sort.fields:
        raise CommandError(15976, "$sort stage must have at least one sort key")
    return SortStage(document_from([("$sort", *value)]), sort)


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    return [parse_sort(value, query_context)]


DECLARATIONS = (Declaration("$sort", _parse),)
