"""Pipelines: parsed, optimised into a find and the rest, split between shards and router, and run.

A pipeline over a collection begins with what the find layer can do better: `$match` and `$sort`, then `$skip`, then
`$limit` (`find_query`). The rest is run over what the find gives (`Pipeline.open`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from docstore.aggregation.expression_context import with_expressions
from docstore.aggregation.known_metadata import known_metadata
from docstore.aggregation.optimiser import optimised
from docstore.aggregation.split import SplitPipeline, split_stages
from docstore.aggregation.stage import Declaration, Environment, Nesting, Place, Stage
from docstore.aggregation.stages.geo_near import POSITION as GEO_NEAR_POSITION
from docstore.aggregation.stages.geo_near import GeoNear
from docstore.aggregation.stages.limit import Limit, Skip
from docstore.aggregation.stages.table import STAGES
from docstore.aggregation.stages.write import Merge, Out
from docstore.aggregation.streams import DocumentList, Pushed, Stream, chained
from docstore.aggregation.unsupported import STAGES as UNSUPPORTED
from docstore.aggregation.unsupported import refused
from docstore.bson.allowance import spend
from docstore.bson.walk import Value, elements
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.tree import Filter, conjunction
from docstore.query.find import FindQuery, Hint
from docstore.query.pausing import PAUSED, PAUSING

MAX_STAGES = 1000
MAX_SUB_PIPELINES = 20
"""How deep pipelines of `$lookup`, `$graphLookup` and `$unionWith` may stand within each other."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages in order, without shorthands. `query_context` is what they were parsed with."""

    stages: tuple[Stage, ...]
    query_context: QueryContext = PLAIN

    @property
    def has_source(self) -> bool:
        """Whether the first stage makes the documents, so that no collection is read."""
        return bool(self.stages) and self.stages[0].makes_documents

    @property
    def needs_collection(self) -> bool:
        """Whether the pipeline is about a collection: what it begins with does not make documents without one."""
        return not self.stages or self.stages[0].needs_collection

    @property
    def is_change_stream(self) -> bool:
        """Whether the pipeline is one of a change stream, which is opened in a way of its own."""
        return bool(self.stages) and self.stages[0].follows_changes

    @property
    def target(self) -> Out | Merge | None:
        """The stage that writes the results, which is always the last."""
        last = self.stages[-1] if self.stages else None
        return last if isinstance(last, Out | Merge) else None

    @property
    def nearness(self) -> GeoNear | None:
        """The stage that gives the documents by distance, which is always the first."""
        first = self.stages[0] if self.stages else None
        return first if isinstance(first, GeoNear) else None

    @property
    def wanted(self) -> int:
        """How many documents by distance the stages take in, if a `$limit` says so; else 0."""
        passed = 0
        for stage in self.stages[1:] if self.nearness is not None else ():
            if isinstance(stage, Limit):
                return passed + stage.count
            if not isinstance(stage, Skip):
                break
            passed += stage.count
        return 0

    def located(self, path: str) -> Pipeline:
        """The pipeline whose documents are measured at a path."""
        assert self.nearness is not None
        return replace(self, stages=(self.nearness.at(path), *self.stages[1:]))

    def without_target(self) -> Pipeline:
        """The stages that make what is to be written."""
        return self if self.target is None else replace(self, stages=self.stages[:-1])

    @property
    def others(self) -> frozenset[str]:
        """The other collections that the stages read, by name."""
        return frozenset[str]().union(*(stage.collections for stage in self.stages))

    def over(self, view: Pipeline) -> Pipeline:
        """The pipeline over what a view's stages make. Error: 40603 for one that must read a collection."""
        if view.stages and self.nearness is not None:
            raise GEO_NEAR_POSITION.not_first("$geoNear")
        return replace(self, stages=tuple(optimised((*view.stages, *self.stages), self.query_context)))

    def behind(self, stage: Stage) -> Pipeline:
        """The pipeline with one more stage in front, but behind a source."""
        at = 1 if self.has_source else 0
        return replace(self, stages=(*self.stages[:at], stage, *self.stages[at:]))

    def find_query(self, hint: Hint | None = None, *, with_sort: bool = True) -> tuple[FindQuery, Pipeline]:
        """What to read, and the stages still to be run over it. Not for a pipeline with a source of its own.

        Without `with_sort` a `$sort` stays a stage: worth it where no index gives the order, since stages can spill.
        """
        assert not self.has_source
        query, used = _leading_find(self.stages, with_sort=with_sort)
        rest = self.stages[used:]
        if rest:
            query = rest[0].narrow_find(query)
        if hint is not None:
            query = replace(query, hint=hint)
        return query, Pipeline(rest, self.query_context)

    def leading_filter(self) -> Filter:
        """The conjunction of the `$match` stages at the beginning: what shards can be chosen by."""
        filters: list[Filter] = []
        for stage in self.stages:
            if stage.leading_filter is None:
                break
            filters.append(stage.leading_filter)
        return conjunction(filters)

    def split(self) -> SplitPipeline:
        """The halves for shards and for whoever merges."""
        return split_stages(self.stages)

    def open(self, source: Stream, environment: Environment) -> Stream:
        """The pipeline at work on a source."""
        return _opened(self.as_run(), source, environment)

    def as_run(self) -> list[Stage]:
        """The stages, every `$sort` told of the `$limit` behind it, every `$lookup` of the `$unwind` of its result."""
        told: list[Stage] = []
        position = 0
        while position < len(self.stages):
            stage, done = self.stages[position].fuse_with(self.stages[position + 1 :]) or (self.stages[position], 0)
            told.append(stage)
            position += 1 + done
        return told

    def open_own(self, environment: Environment) -> Stream:
        """The pipeline at work on what its first stage makes."""
        return self.open(DocumentList(()), environment)


_PER_STAGE = 1024
"""What it costs at least to parse a stage."""


def parse_pipeline(stages: Sequence[bytes], *, query_context: QueryContext = PLAIN) -> Pipeline:
    """A pipeline of raw stage specifications. Expressions are served whatever the language."""
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
    try:
        pipeline = _parsed(stages, Place.TOP, with_expressions(query_context), 0)
    finally:
        PAUSING.level = level
    return Pipeline(tuple(_as_planned(pipeline.stages)), pipeline.query_context)


def _parsed(stages: Sequence[bytes], place: Place, query_context: QueryContext, outer_depth: int) -> Pipeline:
    depth = outer_depth if place in (Place.TOP, Place.FACET) else outer_depth + 1
    if depth > MAX_SUB_PIPELINES:
        raise CommandError(
            Code.MaxSubPipelineDepthExceeded,
            f"Maximum number of nested sub-pipelines exceeded. Limit is {MAX_SUB_PIPELINES}",
        )
    if len(stages) > MAX_STAGES:
        raise CommandError(Code.FailedToParse, f"Pipeline length must be no longer than {MAX_STAGES} stages")
    parsed: list[Stage] = []
    declarations = [_declaration(raw) for raw in stages]
    measures = query_context.measures if place is Place.TOP else {}
    here = query_context
    for declaration, value in declarations:
        spend(_PER_STAGE)
        if measures or here.measures:
            here = replace(here, measures=measures)
        nesting = Nesting(here, partial(_parsed, outer_depth=depth))
        earlier = len(parsed)
        if declaration.parse is not None:
            parsed.extend(declaration.parse(value, here))
        else:
            assert declaration.parse_nesting is not None, "a stage is parsed in one of two ways"
            parsed.extend(declaration.parse_nesting(value, nesting))
        measures = known_metadata(parsed[earlier:], measures)
        _check_place(declaration, place)
    if any(stage.searches_text for stage in parsed[0 if place is Place.FACET else 1 :]):
        raise CommandError(17313, "$match with $text is only allowed as the first pipeline stage")
    for number, (declaration, _) in enumerate(declarations):
        if declaration.position.only_first and number:
            raise declaration.position.not_first(declaration.name)
        if declaration.position.only_last and number < len(declarations) - 1:
            raise CommandError(40601, f"{declaration.name} can only be the final stage in the pipeline")
    return Pipeline(tuple(optimised(parsed, query_context)), query_context)


def _as_planned(stages: Sequence[Stage]) -> list[Stage]:
    """The stages, told of what real servers do otherwise where they give them to the query planner.

    That are the `$group` and plain `$lookup` stages that follow what a find can do, unless the `$lookup` is unwound.
    """
    _, begins = _leading_find(stages)
    planned = list(stages)
    if begins < len(planned) and planned[begins].only_keeps_fields:
        begins += 1
    for position in range(begins, len(planned)):
        following = planned[position + 1] if position + 1 < len(planned) else None
        stage = planned[position].planned(following)
        if stage is None:
            break
        planned[position] = stage
    return planned


def _declaration(raw: bytes) -> tuple[Declaration, Value]:
    fields = elements(raw)
    if len(fields) != 1:
        raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
    name, code, data = fields[0]
    declaration = STAGES.get(name)
    if declaration is None:
        if name in UNSUPPORTED:
            raise refused(name)
        raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")
    return declaration, (code, data)


_REFUSED_IN = {Place.FACET: 40600, Place.LOOKUP: 51047, Place.UNION: 31441}


def _check_place(declaration: Declaration, place: Place) -> None:
    position = declaration.position
    refused = not position.in_facet if place is Place.FACET else not position.in_pipelines
    if place is not Place.TOP and refused:
        raise CommandError(
            _REFUSED_IN[place], f"{declaration.name} is not allowed to be used within a {place.value} stage"
        )


def _leading_find(stages: Sequence[Stage], *, with_sort: bool = True) -> tuple[FindQuery, int]:
    """(find, how many stages it stands for)."""
    query = FindQuery()
    for used, stage in enumerate(stages):
        done = stage.in_find(query, with_sort=with_sort)
        if done is None:
            return query, used
        query = done
    return query, len(stages)


def _opened(stages: Sequence[Stage], source: Stream, environment: Environment) -> Stream:
    """The stages as one stream; an `$unwind` and the `$group` behind it are one run where the kernel can do both."""
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
