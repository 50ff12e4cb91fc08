"""`$changeStream`: the events of a collection, a database or a deployment, from a given position on.

The stage itself produces no documents. If it is first, the whole pipeline is a change stream, which nodes and routers
open in their own way. Only stages that map one document to one or none may follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from docstore.aggregation.change_stream.options import ChangeStreamOptions, parse_options
from docstore.aggregation.stage import Declaration, Environment, Pipeline, Position, Stage
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.project import Project
from docstore.aggregation.stages.redact import Redact
from docstore.aggregation.stages.replace_root import ReplaceRoot
from docstore.aggregation.streams import Stream
from docstore.bson import document_from, elements
from docstore.bson.walk import OBJECT, Value
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.unsupported import not_supported

_SPLIT = "$changeStreamSplitLargeEvent"


@dataclass(frozen=True, slots=True)
class ChangeStream(Stage):
    raw: bytes
    options: ChangeStreamOptions

    makes_documents = True
    follows_changes = True

    def open(self, source: Stream, environment: Environment) -> Stream:
        raise not_supported("stage in this place", "$changeStream")


@dataclass(frozen=True, slots=True)
class SplitLargeEvent(Stage):
    """`$changeStreamSplitLargeEvent`; the runner of the stream's other stages splits the events (`EventStages`)."""

    raw: bytes

    def open(self, source: Stream, environment: Environment) -> Stream:
        raise CommandError(Code.IllegalOperation, f"{_SPLIT} is only permitted in a $changeStream pipeline")


def split_off(pipeline: Pipeline) -> tuple[Pipeline, bool]:
    """Return (the stages that process events, True if large events are split after them)."""
    stages = pipeline.stages
    if not stages or not isinstance(stages[-1], SplitLargeEvent):
        return pipeline, False
    return replace(pipeline, stages=stages[:-1]), True


def change_stream_of(pipeline: Pipeline) -> tuple[ChangeStreamOptions, Pipeline]:
    """Return (options, following stages) of a change stream's pipeline. Errors: IllegalOperation for a stage not
    allowed.
    """
    first = pipeline.stages[0]
    assert isinstance(first, ChangeStream), "the pipeline is one of a change stream"
    following_stages = pipeline.stages[1:]
    for stage in following_stages:
        if not isinstance(stage, (Match, Project, Redact, ReplaceRoot, SplitLargeEvent)):
            name = elements(stage.raw)[0][0]
            raise CommandError(Code.IllegalOperation, f"{name} is not permitted in a $changeStream pipeline")
    return first.options, replace(pipeline, stages=following_stages)


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    options = parse_options(value)
    if not query_context.changes:
        raise CommandError(40573, "The $changeStream stage is only supported on replica sets")
    return [ChangeStream(document_from([("$changeStream", *value)]), options)]


def _parse_split(value: Value, _query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT or elements(value[1]):
        raise CommandError(7182800, f"{_SPLIT} takes an empty object and nothing else")
    return [SplitLargeEvent(document_from([(_SPLIT, *value)]))]


DECLARATIONS = (
    Declaration("$changeStream", _parse, Position(only_first=True, in_facet=False, in_pipelines=False)),
    Declaration(_SPLIT, _parse_split, Position(only_last=True, in_facet=False, in_pipelines=False)),
)
