"""Stages and pipelines: their properties, dependencies and declarations.

A plain stage transforms the documents passed to it (`PlainStage.start`). A stage that reads from elsewhere, or expands
documents, opens its own stream (`Stage.open`). A stage declares its properties by overriding members of `Stage`.
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
"""Maximum bytes that one blocking stage may hold."""

WILL_BE_MERGED = "$willBeMerged"
DOING_MERGE = "$doingMerge"
"""Marks of the halves of a split stage (`docstore.aggregation.split`): the shards', and the merging one."""


@dataclass(frozen=True, slots=True)
class Equality:
    """An index that serves equalities. `query` finds the documents whose value equals one of some values.

    `query` is None if one query for the values of many documents finds each one's partners in the same order.
    `ascending`: that order is the order of the values.
    `by_keys` finds the same documents as that query without planning it, given the sorted keys of the values. It does
    not support values whose equality is not key equality: null, undefined, arrays, patterns.
    """

    query: Callable[[list[Value]], Iterator[bytes]] | None
    ascending: bool = False
    by_keys: Callable[[list[bytes]], Stream] | None = None


class Foreign(Protocol):
    """The other collections of the database, in the snapshot of the pipeline."""

    def open(self, namespace: str, pipeline: Pipeline) -> Stream:
        """Return the output of a pipeline over a collection, which is empty if it does not exist."""
        ...

    def equality(self, namespace: str, path: str, collation: Collation | None) -> Equality | None:
        """Return the index that serves equalities at a path; None if there is none."""
        ...


Unread = bytes | Callable[[], bytes]
"""Data, or a function that reads it."""


class Run(Protocol):
    """A spilled sorted run: its records in the order in which they were written."""

    def records(self) -> Iterator[tuple[bytes, bytes]]: ...

    def unread(self, readahead_bytes: int) -> Iterator[tuple[bytes, Unread]]:
        """Yield (key, data) as `records`, but read large data lazily; about `readahead_bytes` bytes are in memory."""
        ...


class Spill(Protocol):
    """Spill storage, freed when the operation ends."""

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> Run:
        """Write (key, data) pairs as one run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The dependencies of runs. `clock`: in the unit of the deadlines."""

    clock: Callable[[], float]
    memory_limit: int = MEMORY_LIMIT
    buffers: OperationBuffers = field(default_factory=OperationBuffers)
    """Accounts for the memory of the operation's blocking stages."""
    process_documents: Callable[[str, bytes], list[bytes]] | None = None
    """Returns the documents of a stage about the process (`$collStats`, ...), by the stage's name and options."""
    foreign: Foreign | None = None
    spill: Spill | None = None
    """None: blocking stages must not spill."""
    rng: Callable[[], float] | None = None
    """Random numbers in [0, 1)."""


class Stage:
    """A parsed stage. The members have the defaults of an ordinary stage; subclasses override them.

    `raw`: its specification, `{$name: ...}`, as another process is handed it. Not a protocol: `isinstance`, called for
    each stage of each request, is many times slower for one.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # at runtime it would become the default of the fields of that name

        @property
        def raw(self) -> bytes: ...

    makes_documents: ClassVar[bool] = False
    """A source stage: it is first and produces the documents; no collection is read."""
    follows_changes: ClassVar[bool] = False
    """A source stage of change events."""
    keeps_documents: ClassVar[bool] = False
    """Documents pass unchanged, so the metadata (`$meta`) of their find stays valid."""
    maps_documents: ClassVar[bool] = False
    """Each document becomes one, in the same order, independently of others."""
    counts_documents: ClassVar[bool] = False
    """Documents pass by position alone, as in `$limit`."""
    commutes_with_filters: ClassVar[bool] = False
    """A filter after it is equivalent to the same filter before it."""
    runs_on_shards: ClassVar[bool] = False
    """Each shard can run it independently: it processes documents one at a time, or is about one shard."""

    @property
    def explained_specification(self) -> bytes:
        """The specification that explain shows."""
        return self.raw

    @property
    def needs_collection(self) -> bool:
        """True if a pipeline that begins with it reads a collection."""
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
        """The metadata (`$meta`) that the pipeline's leading find provides for its documents because of this stage."""
        return {}

    @property
    def leading_filter(self) -> Filter | None:
        """The filter that its output satisfies, for shard targeting; None: later stages provide none."""
        return None

    @property
    def only_keeps_fields(self) -> bool:
        """True if it keeps some fields and computes none."""
        return False

    @property
    def unwound_path(self) -> str | None:
        """The path of the array it unwinds, if it does nothing else."""
        return None

    @property
    def field_dependencies(self) -> FieldDependencies:
        """The top-level fields that it reads."""
        return ANY_FIELD

    @property
    def preserved_fields(self) -> FieldTest | None:
        """The predicate of top-level fields that it preserves; None if unknown.

        None too if it may drop or repeat documents that a filter on such fields selects.
        """
        return None

    @property
    def copied_paths(self) -> PathSource | None:
        """The mapping of output paths to the input paths that they copy; None if none is known."""
        return None

    def divide_filter(
        self, conditions: Sequence[bytes], query_context: QueryContext, *, with_implied: bool
    ) -> DividedFilter:
        """Divide the conditions of a filter after it; without `with_implied` none is repeated before it."""
        moved, remaining, _ = divide_by_fields(conditions, self.preserved_fields, query_context)
        source_of = self.copied_paths if with_implied else None
        return DividedFilter(moved, remaining, conditions_in_front(remaining, source_of, query_context))

    def join_with(self, following: Stage) -> Stage | None:
        """Return one stage that does the work of both; None if there is none."""
        return None

    def in_find(self, query: FindQuery, *, with_sort: bool) -> FindQuery | None:
        """Return the find that does its work after everything that `query` does; None if there is none."""
        return None

    def narrow_find(self, query: FindQuery) -> FindQuery:
        """Return the pipeline's leading find, restricted to the fields it needs."""
        return query

    def planned(self, following: Stage | None) -> Stage | None:
        """Return the stage as a real server's query planner executes it; None if that does not plan it."""
        return None

    def fuse_with(self, following: Sequence[Stage]) -> tuple[Stage, int] | None:
        """Return (stage fused with following ones, number of stages it replaces); None: it runs as it is."""
        return None

    def split(self) -> SplitStage | None:
        """Return its halves for a sharded collection; None: it runs after the merge."""
        return None

    def start_unwound(self, path: str, environment: Environment) -> StageRun | None:
        """Return a run over documents that a preceding `$unwind` of the path has not yet unwound.

        None: the two stages run separately.
        """
        return None

    def open(self, source: Stream, environment: Environment) -> Stream:
        """Return the stream of the stage over a source."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SplitStage:
    """The halves of a stage: `on_shards` runs on each shard, `merging` over all their results.

    If `merging` is None, merging the shards' streams by `order` completes the stage.
    """

    on_shards: bytes
    merging: bytes | None = None
    order: Sort | None = None


class PlainStage(Stage):
    """A stage defined by its run over the documents passed to it."""

    __slots__ = ()

    @abstractmethod
    def start(self, environment: Environment) -> StageRun:
        """Return a new run over one stream."""

    def open(self, source: Stream, environment: Environment) -> Stream:
        return Pushed(source, self.start(environment), environment.clock)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages in order, without shorthands. `query_context`: that of their parsing.

    A pipeline over a collection begins with a find, which does the work of its first stages (`find_query`). The other
    stages run over the find's documents (`open`).
    """

    stages: tuple[Stage, ...]
    query_context: QueryContext = PLAIN

    @property
    def has_source(self) -> bool:
        """True if the first stage is a source: no collection is read."""
        return bool(self.stages) and self.stages[0].makes_documents

    @property
    def needs_collection(self) -> bool:
        """True if the pipeline reads a collection: its first stage produces no documents without one."""
        return not self.stages or self.stages[0].needs_collection

    @property
    def is_change_stream(self) -> bool:
        """True if the pipeline is a change stream, which is opened differently."""
        return bool(self.stages) and self.stages[0].follows_changes

    @property
    def other_collections(self) -> frozenset[str]:
        """The names of the other collections that the stages read."""
        return frozenset[str]().union(*(stage.collections for stage in self.stages))

    def starting_with(self, stage: Stage) -> Pipeline:
        """Return the pipeline with `stage` first, or second after a source."""
        at = 1 if self.has_source else 0
        return replace(self, stages=(*self.stages[:at], stage, *self.stages[at:]))

    def find_query(self, hint: Hint | None = None, *, with_sort: bool = True) -> tuple[FindQuery, Pipeline]:
        """Return the find of a pipeline without a source, and the remaining pipeline for its documents.

        Without `with_sort` a `$sort` stays a stage: stages can spill, which pays if no index provides the order.
        """
        assert not self.has_source
        query, used = self.leading_find(with_sort=with_sort)
        remaining_stages = self.stages[used:]
        if remaining_stages:
            query = remaining_stages[0].narrow_find(query)
        if hint is not None:
            query = replace(query, hint=hint)
        return query, Pipeline(remaining_stages, self.query_context)

    def leading_find(self, *, with_sort: bool = True) -> tuple[FindQuery, int]:
        """Return the find that does the work of the first stages, and their number."""
        query = FindQuery()
        for used, stage in enumerate(self.stages):
            joined = stage.in_find(query, with_sort=with_sort)
            if joined is None:
                return query, used
            query = joined
        return query, len(self.stages)

    def leading_filter(self) -> Filter:
        """Return the conjunction of the leading `$match` stages, for shard targeting."""
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
        """Return the stages as they run: a `$sort` fused with a following `$limit`, a `$lookup` with a following
        `$unwind`.
        """
        fused: list[Stage] = []
        position = 0
        while position < len(self.stages):
            stage, replaced = self.stages[position].fuse_with(self.stages[position + 1 :]) or (self.stages[position], 0)
            fused.append(stage)
            position += 1 + replaced
        return fused

    def open_own(self, environment: Environment) -> Stream:
        """Return the stream of the pipeline over the documents of its source stage."""
        return self.open(DocumentList(()), environment)


def _opened(stages: Sequence[Stage], source: Stream, environment: Environment) -> Stream:
    """Return the stages as one stream. An `$unwind` and a following `$group` are one run if the kernel supports
    both.
    """
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
"""Parses the value of a stage's name. Some names are shorthands for several stages."""


class EnclosingStage(Enum):
    """The stage whose sub-pipeline a pipeline is."""

    TOP = "a pipeline"
    FACET = "$facet"
    LOOKUP = "$lookup"
    UNION = "$unionWith"


@dataclass(frozen=True, slots=True)
class Nesting:
    """The dependencies of the parser of a stage with sub-pipelines. `pipeline` parses one of them."""

    query_context: QueryContext
    pipeline: Callable[[Sequence[bytes], EnclosingStage, QueryContext], Pipeline]


NestingParser = Callable[[Value, Nesting], list[Stage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The allowed positions of a stage.

    `planned`: it must be first because the find layer executes it. `target`: what the aggregate must be run against,
    for a stage that `$lookup` and `$unionWith` may not have.
    """

    only_first: bool = False
    planned: bool = False
    only_last: bool = False
    in_facet: bool = True
    in_pipelines: bool = True
    target: str = ""

    def not_first(self, name: str) -> CommandError:
        """Return the error for a stage that must be first and is not."""
        if self.planned:
            return CommandError(40603, f"{name} is only valid as the first stage in an optimized pipeline")
        return CommandError(40602, f"{name} is only valid as the first stage in a pipeline")


ANYWHERE = Position()
SOURCE = Position(only_first=True, in_facet=False)
"""The position of a source stage."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An entry of the table of stages; one with sub-pipelines has `parse_nesting` in place of `parse`."""

    name: str
    parse: StageParser | None
    position: Position = ANYWHERE
    parse_nesting: NestingParser | None = None


def memory_exceeded(name: str, limit: int) -> CommandError:
    """Return the error for a blocking stage that would exceed the limit."""
    return CommandError(
        Code.QueryExceededMemoryLimitNoDiskUseAllowed,
        f"Exceeded memory limit of {limit} bytes for {name}, and may not use the disk: pass allowDiskUse:true.",
    )
