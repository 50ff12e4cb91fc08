"""Pipelines: parsed, optimised into a find and the rest, split between shards and router, and run.

A pipeline over a collection begins with what the find layer can do better: `$match` and `$sort`, then `$skip`, then
`$limit` (`find_query`). The rest is run over what the find gives (`Pipeline.open`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docstore.aggregation.find_language import with_expressions
from docstore.aggregation.split import SplitPipeline, split_stages
from docstore.aggregation.stage import Environment, Stage, Stream, StreamStage
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.limit import Limit, Skip
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.sort import SortStage
from docstore.aggregation.stages.sources import CollectionStatistics, Documents
from docstore.aggregation.stages.table import STAGES
from docstore.aggregation.stages.unwind import Unwind
from docstore.aggregation.streams import DocumentList, Pushed
from docstore.aggregation.unsupported import STAGES as UNSUPPORTED
from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.query.find import FindQuery, Hint
from docstore.query.language import PLAIN, Language
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

    def open(self, source: Stream, environment: Environment) -> Stream:
        """The pipeline at work on a source."""
        return _opened(_with_limits(self.stages), source, environment)

    def open_own(self, environment: Environment) -> Stream:
        """The pipeline at work on what its first stage makes."""
        return self.open(DocumentList(()), environment)


def parse_pipeline(stages: Sequence[bytes], *, language: Language = PLAIN) -> Pipeline:
    """A pipeline of raw stage specifications. Expressions are served whatever the language."""
    language = with_expressions(language)
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
        parsed.extend(declaration.parse((code, data), language))
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


def _opened(stages: Sequence[Stage], stream: Stream, environment: Environment) -> Stream:
    """The stages as one stream; an `$unwind` and the `$group` behind it are one run where the kernel can do both."""
    position = 0
    while position < len(stages):
        stage = stages[position]
        following = stages[position + 1] if position + 1 < len(stages) else None
        position += 1
        if isinstance(stage, StreamStage):
            stream = stage.open(stream, environment)
            continue
        if isinstance(stage, Unwind) and stage.is_plain and isinstance(following, Group):
            run = following.start_unwound(stage.path, environment)
            if run is not None:
                stream = Pushed(stream, run, environment.clock)
                position += 1
                continue
        stream = Pushed(stream, stage.start(environment), environment.clock)
    return stream


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
