"""explain of a pipeline: the find that feeds it, and the stages over that. Nothing is written.

A pipeline that is only a find is explained as one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bson.int64 import Int64

from docstore.aggregation.stage import Environment, Pipeline, Stage
from docstore.aggregation.stage_stats import MeasuredStream
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.lookup import Lookup
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.sort import SortStage
from docstore.aggregation.stages.unwind import Unwind
from docstore.aggregation.stages.write import target_of, without_target
from docstore.aggregation.streams import SEGMENT_STAGES, DocumentList, Stream, chained
from docstore.bson import document_to_python
from docstore.buffers import OperationBuffers
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.node.explain.command import Subject, explained, frame
from docstore.node.explain.filter import filter_document
from docstore.node.node import node_of
from docstore.node.pipeline.collections import FindStream, LocalCollections, located
from docstore.node.read.snapshot import View, view_of
from docstore.node.read.sources import DocumentSource
from docstore.node.slices import finish_steps, until_done
from docstore.query.find import Hint
from docstore.spill import SpillFile


async def explain_aggregate(
    context: Context, pipeline: Pipeline, hint: Hint | None, verbosity: str, command: bytes | None = None
) -> Result:
    """Return the explain reply for a pipeline; it shows `command`, by default that of the request."""
    runs = verbosity != "queryPlanner"
    if pipeline.has_source:
        running = RunningPipeline(pipeline)
        if runs:
            await running.run_own(context)
        return {"explainVersion": "1", "stages": running.stage_documents(runs), **frame(context, command)}
    collection = node_of(context).store.collection(context.namespace)
    query, remaining = located(pipeline, collection, context.namespace).find_query(hint)
    running = RunningPipeline(remaining)
    subject = Subject(query, collation=pipeline.query_context.collation)
    try:
        sections = await explained(context, subject, verbosity, running.open_over if remaining.stages else None)
    finally:
        running.close()
    if not remaining.stages:
        planner = _optimized(sections.pop("queryPlanner"))
        return {"explainVersion": "1", "queryPlanner": planner, **sections, **frame(context, command)}
    cursor: dict[str, Any] = {"$cursor": sections}
    if runs:
        cursor |= stage_stats(sections["executionStats"]["nReturned"], 0.0)
    return {"explainVersion": "1", "stages": [cursor, *running.stage_documents(runs)], **frame(context, command)}


def _optimized(planner: dict[str, Any]) -> dict[str, Any]:
    """Return the section of a find as part of a pipeline, which one field distinguishes from a find command's."""
    section: dict[str, Any] = {}
    for name, value in planner.items():
        if name == "maxIndexedOrSolutionsReached":
            section["optimizedPipeline"] = True
        section[name] = value
    return section


class RunningPipeline:
    """The stages of a pipeline, each measured; writing stages are left out."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._stages = without_target(pipeline).as_run()
        self._target = target_of(pipeline)
        self._streams: list[MeasuredStream] = []
        self._spill: SpillFile | None = None

    def close(self) -> None:
        """Release the spill file."""
        if self._spill is not None:
            self._spill.close()

    def open_over(self, context: Context, view: View, source: DocumentSource) -> Stream:
        """Open the stages over a find's documents."""
        return self._open(FindStream(source), self._environment(context, view))

    def over_events(self, context: Context, source: Stream) -> Stream:
        """Open the stages over the events of a change stream, which read no collection."""
        return self._open(source, Environment(clock=node_of(context).clock, rng=node_of(context).rng))

    async def run_own(self, context: Context) -> None:
        """Run the stages over the documents that the first one produces."""
        view = await finish_steps(context, view_of(context))
        try:
            stream = self._open(DocumentList(()), self._environment(context, view))
            await finish_steps(context, until_done(node_of(context), lambda until: stream.next_batch(until)[1]))
        finally:
            view.release()
            self.close()

    def _environment(self, context: Context, view: View) -> Environment:
        self._spill = SpillFile(node_of(context).settings.dbpath)
        return LocalCollections(context, view.reader, self._spill, OperationBuffers()).environment(context.namespace)

    def _open(self, source: Stream, environment: Environment) -> Stream:
        def measured(stage: Stage, source: Stream) -> Stream:
            self._streams.append(MeasuredStream(stage, source, environment))
            return self._streams[-1]

        return chained([partial(measured, stage) for stage in self._stages], source, environment.clock)

    def stage_documents(self, runs: bool) -> list[dict[str, Any]]:
        """Return the stages, with their statistics if they ran."""
        documents = [
            shown_stage(stage) | (self._stage_figures(position) if runs else {})
            for position, stage in enumerate(self._stages)
        ]
        if self._target is not None:
            documents.append(shown_stage(self._target) | (stage_stats(0, 0.0) if runs else {}))
        return documents

    def _stage_figures(self, position: int) -> dict[str, Any]:
        stream = self._streams[position]
        # The last stage of each segment has the time of that segment alone.
        segments = self._streams[SEGMENT_STAGES - 1 : position : SEGMENT_STAGES]
        execution_stats = stage_stats(stream.returned, stream.seconds + sum(segment.seconds for segment in segments))
        disk = {"usedDisk": stream.spills > 0, "spills": Int64(stream.spills)}
        if isinstance(stream.stage, SortStage):
            size = self._streams[position - 1].size if position else stream.size
            return {"totalDataSizeSortedBytesEstimate": Int64(size), **disk, **execution_stats}
        if isinstance(stream.stage, Group):
            return {"totalOutputDataSizeBytes": Int64(stream.size), **disk, **execution_stats}
        return execution_stats


def shown_stage(stage: Stage) -> dict[str, Any]:
    """Return a stage as explain shows it."""
    if isinstance(stage, Match):
        return {"$match": filter_document(stage.filter)}
    if isinstance(stage, SortStage):
        limit = {} if stage.limit is None else {"limit": Int64(stage.limit)}
        return {"$sort": {"sortKey": dict(stage.sort.fields), **limit}}
    if isinstance(stage, Unwind):
        return {"$unwind": _unwind_options(stage, {"path": "$" + stage.path})}
    document: dict[str, Any] = document_to_python(stage.explained_specification)
    if isinstance(stage, Lookup) and stage.unwind is not None:
        options = {"preserveNullAndEmptyArrays": stage.unwind.keep_empty}
        document["$lookup"]["unwinding"] = _unwind_options(stage.unwind, {}) | options
    return document


def _unwind_options(stage: Unwind, document: dict[str, Any]) -> dict[str, Any]:
    if stage.keep_empty:
        document["preserveNullAndEmptyArrays"] = True
    if stage.index_path is not None:
        document["includeArrayIndex"] = stage.index_path
    return document


def stage_stats(returned: int, seconds: float) -> dict[str, Any]:
    """Return the statistics that every executed stage shows. `seconds`: its execution time."""
    return {"nReturned": Int64(returned), "executionTimeMillisEstimate": Int64(round(seconds * 1000))}
