"""Parsing of pipelines: stages by their table, checks of their positions, and optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from docstore.aggregation.expression_context import with_expressions
from docstore.aggregation.known_metadata import known_metadata
from docstore.aggregation.optimiser import optimised
from docstore.aggregation.stage import Declaration, EnclosingStage, Nesting, Pipeline, Stage
from docstore.aggregation.stages.geo_near import POSITION as GEO_NEAR_POSITION
from docstore.aggregation.stages.geo_near import leading_geo_near
from docstore.aggregation.stages.table import STAGES
from docstore.aggregation.unsupported import STAGES as UNSUPPORTED
from docstore.aggregation.unsupported import refused
from docstore.bson.allowance import spend
from docstore.bson.walk import Value, elements
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.pausing import PAUSED, PAUSING

MAX_STAGES = 1000
MAX_SUB_PIPELINES = 20
"""Maximum nesting of the pipelines of `$lookup`, `$graphLookup` and `$unionWith`."""

_PER_STAGE = 1024
"""Minimum work units charged for parsing a stage."""


def parse_pipeline(stages: Sequence[bytes], *, query_context: QueryContext = PLAIN) -> Pipeline:
    """Parse raw stage specifications to a pipeline. Expressions are enabled in any context."""
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
    try:
        pipeline = _parsed(stages, EnclosingStage.TOP, with_expressions(query_context), 0)
    finally:
        PAUSING.level = level
    return Pipeline(tuple(_as_planned(pipeline)), pipeline.query_context)


def parse_written(stages: Sequence[bytes], query_context: QueryContext) -> Pipeline:
    """Parse stages that a process of the cluster has written, such as the half of a split pipeline."""
    return parse_pipeline(stages, query_context=replace(query_context, halves=True))


def over_view(pipeline: Pipeline, view: Pipeline) -> Pipeline:
    """Return the pipeline over the documents of a view, whose definition is `view`.

    Errors: 40603 if the pipeline must read a collection.
    """
    if view.stages and leading_geo_near(pipeline) is not None:
        raise GEO_NEAR_POSITION.not_first("$geoNear")
    return replace(pipeline, stages=tuple(optimised((*view.stages, *pipeline.stages), pipeline.query_context)))


def _parsed(
    stages: Sequence[bytes], enclosing: EnclosingStage, query_context: QueryContext, outer_depth: int
) -> Pipeline:
    depth = outer_depth if enclosing in (EnclosingStage.TOP, EnclosingStage.FACET) else outer_depth + 1
    if depth > MAX_SUB_PIPELINES:
        raise CommandError(
            Code.MaxSubPipelineDepthExceeded,
            f"Maximum number of nested sub-pipelines exceeded. Limit is {MAX_SUB_PIPELINES}",
        )
    if len(stages) > MAX_STAGES:
        raise CommandError(Code.FailedToParse, f"Pipeline length must be no longer than {MAX_STAGES} stages")
    parsed: list[Stage] = []
    declarations = [_declaration(raw) for raw in stages]
    measures = query_context.measures if enclosing is EnclosingStage.TOP else {}
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
        _check_place(declaration, enclosing)
    if any(stage.searches_text for stage in parsed[0 if enclosing is EnclosingStage.FACET else 1 :]):
        raise CommandError(17313, "$match with $text is only allowed as the first pipeline stage")
    for number, (declaration, _) in enumerate(declarations):
        if declaration.position.only_first and number:
            raise declaration.position.not_first(declaration.name)
        if declaration.position.only_last and number < len(declarations) - 1:
            raise CommandError(40601, f"{declaration.name} can only be the final stage in the pipeline")
    return Pipeline(tuple(optimised(parsed, query_context)), query_context)


def _as_planned(pipeline: Pipeline) -> list[Stage]:
    """Return the stages with those replaced that a real server's query planner executes differently.

    These are the `$group` and plain `$lookup` stages after the leading find, unless the `$lookup` is unwound.
    """
    _, begins = pipeline.leading_find()
    planned = list(pipeline.stages)
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


_REFUSED_IN = {EnclosingStage.FACET: 40600, EnclosingStage.LOOKUP: 51047, EnclosingStage.UNION: 31441}


def _check_place(declaration: Declaration, enclosing: EnclosingStage) -> None:
    position = declaration.position
    if position.target and enclosing in (EnclosingStage.LOOKUP, EnclosingStage.UNION):
        raise CommandError(Code.InvalidNamespace, f"{declaration.name} {position.target}")
    refused = not position.in_facet if enclosing is EnclosingStage.FACET else not position.in_pipelines
    if enclosing is not EnclosingStage.TOP and refused:
        raise CommandError(
            _REFUSED_IN[enclosing], f"{declaration.name} is not allowed to be used within a {enclosing.value} stage"
        )
