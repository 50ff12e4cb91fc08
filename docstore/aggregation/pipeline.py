"""Pipelines: parsed, optimised into a find and the rest, split between shards and router, and run.

A pipeline over a collection begins with what the find layer can do better: `$match` and `$sort`, then `$skip`, then
`$limit` (`find_query`). The rest is run over the find's batches (`PipelineRun`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docstore.aggregation.split import SplitPipeline, split_stages
from docstore.aggregation.stage import Environment, Stage, StageRun
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.limit import Limit, Skip
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.sort import SortStage
from docstore.aggregation.stages.sources import CollectionStatistics, Documents
from docstore.aggregation.stages.table import STAGES
from docstore.aggregation.stages.unwind import Unwind
from docstore.aggregation.unsupported import STAGES as UNSUPPORTED
from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.query.find import FindQuery, Hint
from docstore.query.tree import And, Filter, conjunction
from docstore.query.unsupported import not_supported

MAX_STAGES = 1000


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages in order, shorthands replaced by what they stand for."""

    stages: tuple[Stage, ...]

    @property
    def has_source(self) -> bool:
        """Whether the first stage makes the documents, so that no collection is read."""
        return bool(self.stages) and isinstance(self.stages[0], CollectionStatistics | Documents)

    @property
    def needs_collection(self) -> bool:
        """Whether the pipeline is about a collection; only `$documents` is not."""
        return not (self.stages and isinstance(self.stages[0], Documents))

    def find_query(self, hint: Hint | None = None) -> tuple[FindQuery, Pipeline]:
        """What to read, and the stages still to be run over it. Not for a pipeline with a source of its own."""
        assert not self.has_source
        query, used = _leading_find(self.stages)
        return replace(query, hint=hint), Pipeline(self.stages[used:])

    def leading_filter(self) -> Filter:
        """The conjunction of the `$match` stages at the beginning: what shards can be chosen by."""
        filters: list[Filter] = []
        for stage in self.stages:
            if not isinstance(stage, Match):
                break
            filters.append(stage.filter)
        return conjunction(filters)

    def split(self) -> SplitPipeline:
        """The halves for shards and for whoever merges."""
        return split_stages(self.stages)

    def start(self, environment: Environment) -> PipelineRun:
        return PipelineRun(_started(_with_limits(self.stages), environment))


def parse_pipeline(stages: Sequence[bytes]) -> Pipeline:
    """A pipeline of raw stage specifications."""
    if len(stages) > MAX_STAGES:
        raise CommandError(Code.FailedToParse, f"Pipeline length must be no longer than {MAX_STAGES} stages")
    parsed: list[Stage] = []
    for raw in stages:
        fields = elements(raw)
        if len(fields) != 1:
            raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
        name, code, data = fields[0]
        declaration = STAGES.get(name)
        if declaration is None:
            if name in UNSUPPORTED:
                raise not_supported("aggregation stage", name)
            raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")
        if declaration.only_first and parsed:
            raise CommandError(40602, f"{name} is only valid as the first stage in a pipeline")
        parsed.extend(declaration.parse((code, data)))
    return Pipeline(tuple(parsed))


def _leading_find(stages: Sequence[Stage]) -> tuple[FindQuery, int]:
    """(find, how many stages it stands for)."""
    query = FindQuery()
    filters: list[Filter] = []
    used = 0
    for stage in stages:
        if isinstance(stage, Match) and not (query.skip or query.limit):
            filters.append(stage.filter)
        elif isinstance(stage, SortStage) and not (query.sort or query.skip or query.limit):
            query = replace(query, sort=stage.sort)
        elif isinstance(stage, Skip) and not query.limit:
            query = replace(query, skip=query.skip + stage.count)
        elif isinstance(stage, Limit) and not query.limit:
            query = replace(query, limit=stage.count)
        else:
            break
        used += 1
    return replace(query, filter=conjunction(filters) if filters else And(())), used


def _with_limits(stages: Sequence[Stage]) -> list[Stage]:
    """The stages, every `$sort` told of the `$limit` that follows it."""
    told: list[Stage] = []
    for position, stage in enumerate(stages):
        if isinstance(stage, SortStage):
            told.append(replace(stage, limit=_limit_behind(stages, position)))
        else:
            told.append(stage)
    return told


def _started(stages: Sequence[Stage], environment: Environment) -> list[StageRun]:
    """The runs of the stages; an `$unwind` and the `$group` behind it are one run where the kernel can do both."""
    runs: list[StageRun] = []
    position = 0
    while position < len(stages):
        stage = stages[position]
        following = stages[position + 1] if position + 1 < len(stages) else None
        position += 1
        if isinstance(stage, Unwind) and stage.is_plain and isinstance(following, Group):
            run = following.start_unwound(stage.path, environment)
            if run is not None:
                runs.append(run)
                position += 1
                continue
        runs.append(stage.start(environment))
    return runs


def _limit_behind(stages: Sequence[Stage], position: int) -> int | None:
    skipped = 0
    for stage in stages[position + 1 :]:
        if isinstance(stage, Skip):
            skipped += stage.count
        elif isinstance(stage, Limit):
            return skipped + stage.count
        else:
            return None
    return None


class PipelineRun:
    """The runs of all stages, chained. `push` and `finish` as for one stage."""

    def __init__(self, runs: list[StageRun]) -> None:
        self._runs = runs
        self._finishing = 0

    @property
    def satisfied(self) -> bool:
        """Whether no further input is needed: some stage's limit is reached."""
        return any(run.satisfied for run in self._runs)

    def push(self, documents: list[bytes]) -> list[bytes]:
        """Documents through all stages; what comes out at the end."""
        return self._through(0, documents)

    def _through(self, start: int, documents: list[bytes]) -> list[bytes]:
        for run in self._runs[start:]:
            if not documents:
                break
            documents = run.push(documents)
        return documents

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        """After the last push: (documents, whether these are the last ones). Called until they are.

        Stages finish from the first to the last: what one hands out is pushed through those behind it.
        """
        while self._finishing < len(self._runs):
            documents, done = self._runs[self._finishing].finish(deadline)
            found = self._through(self._finishing + 1, documents)
            if done or any(run.satisfied for run in self._runs[self._finishing + 1 :]):
                self._finishing += 1
            if found or not done:
                return found, self._finishing == len(self._runs)
        return [], True
