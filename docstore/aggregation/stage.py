"""Stages and pipelines of them: what they answer about themselves, need from outside, and are declared by.

A plain stage says what it does to documents that are handed to it (`PlainStage.start`). A stage that reads from
elsewhere, or makes many documents of one, opens a stream of its own (`Stage.open`). A stage answers all questions about
itself by overriding the members of `Stage`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol

from docstore.aggregation.field_dependencies import ANY_FIELD, FieldDependencies
from docstore.aggregation.filter_pushdown import (
    DividedFilter,
    FieldTest,
    PathSource,
    conditions_in_front,
    divide_by_fields,
)
from docstore.aggregation.streams import DocumentList, Pushed, StageRun, Stream, chained
from docstore.bson.walk import Value
from docstore.buffers import OperationBuffers
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.tree import Filter, conjunction
from docstore.query.find import FindQuery, Hint
from docstore.query.metadata import Measure
from docstore.query.sort import Sort
from docstore.query.value.collation import Collation

MEMORY_LIMIT = 100 * 1024 * 1024
"""Bytes that one blocking stage may hold."""

WILL_BE_MERGED = "$willBeMerged"
DOING_MERGE = "$doingMerge"
"""Marks of the halves of a stage (`docstore.aggregation.split`): that of the shards, that over their results."""


@dataclass(frozen=True, slots=True)
class Equality:
    """An index that serves equalities. `each` finds the documents whose value equals one of some values; it is None if
    one query for the values of many documents finds the partners of each in the same order. `ascending`: that is the
    order of the values.

    `by_keys` finds the same documents as that query without planning it, given the sorted keys of the values. It is not
    for values whose equality is not that of their keys: null, undefined, arrays, patterns.
    """

    each: Callable[[list[Value]], Iterator[bytes]] | None
    ascending: bool = False
    by_keys: Callable[[list[bytes]], Stream] | None = None


class Foreign(Protocol):
    """The other collections of the database, in the snapshot that the pipeline reads."""

    def open(self, namespace: str, pipeline: Pipeline) -> Stream:
        """Return the output of a pipeline over a collection, which is empty if that does not exist."""
        ...

    def equality(self, namespace: str, path: str, collation: Collation | None) -> Equality | None:
        """Return the index that serves equalities with the values at a path; None if none does."""
        ...


Unread = bytes | Callable[[], bytes]
"""Data, or the function that reads it."""


class Run(Protocol):
    """A sorted run outside memory: the records in the order in which they were written."""

    def records(self) -> Iterator[tuple[bytes, bytes]]: ...

    def unread(self, ahead: int) -> Iterator[tuple[bytes, Unread]]:
        """Yield (key, data) as `records`, but read large data lazily; about `ahead` bytes are in memory."""
        ...


class Spill(Protocol):
    """Storage outside memory, freed when the operation ends."""

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> Run:
        """Write (key, data) pairs as one run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The dependencies of runs. `clock` is in the unit of the deadlines."""

    clock: Callable[[], float]
    memory_limit: int = MEMORY_LIMIT
    buffers: OperationBuffers = field(default_factory=OperationBuffers)
    """The bytes that the blocking stages of the operation hold together."""
    process_documents: Callable[[str, bytes], list[bytes]] | None = None
    """The documents of a stage that tells of the process (`$collStats`, ...), given the stage's name and options."""
    foreign: Foreign | None = None
    spill: Spill | None = None
    """None: blocking stages may not leave memory."""
    rng: Callable[[], float] | None = None
    """Random numbers in [0, 1)."""


class Stage:
    """A parsed stage. Its members answer for a stage with nothing special about it, and are overridden.

    `raw` is its specification, `{$name: ...}`. Not a protocol: `isinstance`, which is called for each stage of each
    request, takes many times as long for one.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # at work it would be the default of the fields of that name

        @property
        def raw(self) -> bytes: ...

    makes_documents: ClassVar[bool] = False
    """It stands first and makes the documents: no collection is read."""
    follows_changes: ClassVar[bool] = False
    """The documents that it makes are those of a change stream."""
    keeps_documents: ClassVar[bool] = False
    """Documents come out as they went in: the metadata that their find has of them (`$meta`) still holds."""
    maps_documents: ClassVar[bool] = False
    """Each document becomes one, in the same order, whatever the others are."""
    counts_documents: ClassVar[bool] = False
    """Documents pass by their position alone, as in `$limit`."""
    commutes_with_filters: ClassVar[bool] = False
    """A filter behind it gives the same in front of it."""
    runs_on_shards: ClassVar[bool] = False
    """Each shard can do it for itself: it reads one document at a time, or is about one shard."""

    @property
    def needs_collection(self) -> bool:
        """True if a pipeline that begins with it is about a collection."""
        return True

    @property
    def collections(self) -> frozenset[str]:
        """The names of the other collections that it reads."""
        return frozenset()

    @property
    def searches_text(self) -> bool:
        """True if it has a `$text`, which only the find layer can answer."""
        return False

    @property
    def measures(self) -> Mapping[str, Measure]:
        """The metadata (`$meta`) that the find in front of a pipeline has of documents because of it."""
        return {}

    @property
    def leading_filter(self) -> Filter | None:
        """The filter that its output satisfies, by which shards can be chosen; None ends the choice here."""
        return None

    @property
    def only_keeps_fields(self) -> bool:
        """True if it keeps some fields and calculates none."""
        return False

    @property
    def unwound_path(self) -> str | None:
        """The path whose arrays it unwinds, if it does nothing else."""
        return None

    @property
    def field_dependencies(self) -> FieldDependencies:
        """The top-level fields that it reads."""
        return ANY_FIELD

    @property
    def preserved_fields(self) -> FieldTest | None:
        """The test of whether a top-level field comes out as it went in; None if nothing is known, or if documents do
        not come out once for each that a filter on such fields lets in.
        """
        return None

    @property
    def copied_paths(self) -> PathSource | None:
        """The paths in its output that are plain copies of paths in its input; None if none is known."""
        return None

    def divide_filter(
        self, conditions: Sequence[bytes], query_context: QueryContext, *, with_implied: bool
    ) -> DividedFilter:
        """Divide the conditions of a filter behind it; without `with_implied` none is repeated in front of it."""
        moved, remaining, _ = divide_by_fields(conditions, self.preserved_fields, query_context)
        source_of = self.copied_paths if with_implied else None
        return DividedFilter(moved, remaining, conditions_in_front(remaining, source_of, query_context))

    def join_with(self, following: Stage) -> Stage | None:
        """Return one stage that does the work of both; None if there is none."""
        return None

    def in_find(self, query: FindQuery, *, with_sort: bool) -> FindQuery | None:
        """Return the find that does its work behind all that `query` does already; None if there is none."""
        return None

    def narrow_find(self, query: FindQuery) -> FindQuery:
        """Return the find that it runs behind, reduced to what it needs of the documents."""
        return query

    def planned(self, following: Stage | None) -> Stage | None:
        """Return the stage as the query planner of a real server does it; None if that does not get to see it."""
        return None

    def fuse_with(self, following: Sequence[Stage]) -> tuple[Stage, int] | None:
        """Return (the stage that makes use of the stages behind it, how many of these it replaces); None: it runs as
        it is.
        """
        return None

    def split(self) -> SplitStage | None:
        """Return its halves for a sharded collection; None: all of it runs behind the merge."""
        return None

    def start_unwound(self, path: str, environment: Environment) -> StageRun | None:
        """Return a run over documents that a `$unwind` of the path in front of it has not yet unwound.

        None: the two stages run one after the other.
        """
        return None

    def open(self, source: Stream, environment: Environment) -> Stream:
        """Return the stream of the stage over a source."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SplitStage:
    """The halves of a stage: `on_shards` is run by each shard, `merging` over all their results.

    Where `merging` is None the merge of the shards' streams by `order` does the rest.
    """

    on_shards: bytes
    merging: bytes | None = None
    order: Sort | None = None


class PlainStage(Stage):
    """A stage that is defined by its run over documents that are handed to it."""

    __slots__ = ()

    @abstractmethod
    def start(self, environment: Environment) -> StageRun:
        """Return a new run over one stream."""

    def open(self, source: Stream, environment: Environment) -> Stream:
        return Pushed(source, self.start(environment), environment.clock)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages in order, without shorthands. `query_context` is that of their parsing.

    A pipeline over a collection begins with a find, which does the work of its first stages (`find_query`), and runs
    the other stages over the documents of that (`open`).
    """

    stages: tuple[Stage, ...]
    query_context: QueryContext = PLAIN

    @property
    def has_source(self) -> bool:
        """True if the first stage makes the documents: no collection is read."""
        return bool(self.stages) and self.stages[0].makes_documents

    @property
    def needs_collection(self) -> bool:
        """True if the pipeline is about a collection: its first stage makes no documents without one."""
        return not self.stages or self.stages[0].needs_collection

    @property
    def is_change_stream(self) -> bool:
        """True if the pipeline is one of a change stream, which is not opened as others are."""
        return bool(self.stages) and self.stages[0].follows_changes

    @property
    def others(self) -> frozenset[str]:
        """The names of the other collections that the stages read."""
        return frozenset[str]().union(*(stage.collections for stage in self.stages))

    def behind(self, stage: Stage) -> Pipeline:
        """Return the pipeline with one more stage in front, but behind a source."""
        at = 1 if self.has_source else 0
        return replace(self, stages=(*self.stages[:at], stage, *self.stages[at:]))

    def find_query(self, hint: Hint | None = None, *, with_sort: bool = True) -> tuple[FindQuery, Pipeline]:
        """Return the find of a pipeline without a source, and the pipeline that is still to be run over its documents.

        Without `with_sort` a `$sort` stays a stage: stages can spill, which pays if no index gives the order.
        """
        assert not self.has_source
        query, used = self.leading_find(with_sort=with_sort)
        rest = self.stages[used:]
        if rest:
            query = rest[0].narrow_find(query)
        if hint is not None:
            query = replace(query, hint=hint)
        return query, Pipeline(rest, self.query_context)

    def leading_find(self, *, with_sort: bool = True) -> tuple[FindQuery, int]:
        """Return the find that does the work of the first stages, and how many these are."""
        query = FindQuery()
        for used, stage in enumerate(self.stages):
            joined = stage.in_find(query, with_sort=with_sort)
            if joined is None:
                return query, used
            query = joined
        return query, len(self.stages)

    def leading_filter(self) -> Filter:
        """Return the conjunction of the `$match` stages at the beginning, by which shards are chosen."""
        filters: list[Filter] = []
        for stage in self.stages:
            if stage.leading_filter is None:
                break
            filters.append(stage.leading_filter)
        return conjunction(filters)

    def open(self, source: Stream, environment: Environment) -> Stream:
        """Return the stream of the pipeline over a source."""
        return _opened(self.as_run(), source, environment)

    def as_run(self) -> list[Stage]:
        """Return the stages as they run: a `$sort` has the `$limit` behind it, a `$lookup` the `$unwind` behind it."""
        fused: list[Stage] = []
        position = 0
        while position < len(self.stages):
            stage, replaced = self.stages[position].fuse_with(self.stages[position + 1 :]) or (self.stages[position], 0)
            fused.append(stage)
            position += 1 + replaced
        return fused

    def open_own(self, environment: Environment) -> Stream:
        """Return the stream of the pipeline over the documents that its first stage makes."""
        return self.open(DocumentList(()), environment)


def _opened(stages: Sequence[Stage], source: Stream, environment: Environment) -> Stream:
    """Return the stages as one stream. An `$unwind` and the `$group` behind it are one run if the kernel does both."""
    openings: list[Callable[[Stream], Stream]] = []
    position = 0
    while position < len(stages):
        stage = stages[position]
        following = stages[position + 1] if position + 1 < len(stages) else None
        position += 1
        path = stage.unwound_path
        run = None if path is None or following is None else following.start_unwound(path, environment)
        if run is None:
            openings.append(partial(stage.open, environment=environment))
        else:
            openings.append(partial(Pushed, run=run, clock=environment.clock))
            position += 1
    return chained(openings, source, environment.clock)


StageParser = Callable[[Value, QueryContext], list[Stage]]
"""Parses the value of a stage's name. Some names stand for several stages."""


class Place(Enum):
    """The stage that a pipeline is part of."""

    TOP = "a pipeline"
    FACET = "$facet"
    LOOKUP = "$lookup"
    UNION = "$unionWith"


@dataclass(frozen=True, slots=True)
class Nesting:
    """The dependencies of the parser of a stage that holds pipelines. `pipeline` parses one of these."""

    query_context: QueryContext
    pipeline: Callable[[Sequence[bytes], Place, QueryContext], Pipeline]


NestingParser = Callable[[Value, Nesting], list[Stage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The allowed positions of a stage. `planned`: it must be first because the find layer executes it."""

    only_first: bool = False
    planned: bool = False
    only_last: bool = False
    in_facet: bool = True
    in_pipelines: bool = True

    def not_first(self, name: str) -> CommandError:
        """Return the error for a stage that stands behind another."""
        if self.planned:
            return CommandError(40603, f"{name} is only valid as the first stage in an optimized pipeline")
        return CommandError(40602, f"{name} is only valid as the first stage in a pipeline")


ANYWHERE = Position()
SOURCE = Position(only_first=True, in_facet=False)
"""The position of a stage that makes documents."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An entry of the table of stages; one that holds pipelines has `parse_nesting` in the place of `parse`."""

    name: str
    parse: StageParser | None
    position: Position = ANYWHERE
    parse_nesting: NestingParser | None = None


def memory_exceeded(name: str, limit: int) -> CommandError:
    """Return the error for a blocking stage that would hold more than the limit."""
    return CommandError(
        Code.QueryExceededMemoryLimitNoDiskUseAllowed,
        f"Exceeded memory limit of {limit} bytes for {name}, and may not use the disk: pass allowDiskUse:true.",
    )
