"""explain of a change stream: its start in the oplog, and the steps that turn entries into events.

Names and order of the steps follow MongoDB 6.0. With execution statistics the stream is read up to the newest event.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.change_stream.options import ChangeStreamOptions
from docstore.aggregation.change_stream.token import high_water_mark
from docstore.aggregation.stage import Pipeline
from docstore.aggregation.stages.change_stream import change_stream_of
from docstore.aggregation.streams import Feed
from docstore.bson import array_documents, document_to_python, get_field
from docstore.bson.walk import BOOL
from docstore.collection.oplog.oplog import OPLOG_NS, entry_optime
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.aggregate import check_stream_concern
from docstore.node.change_streams.opening import StreamFilling, beginning, scope_asked, stream_of
from docstore.node.change_streams.stream import StreamOptions, leading_filters
from docstore.node.explain.command import frame
from docstore.node.explain.filter import filter_document
from docstore.node.explain.pipeline import RunningPipeline, shown_stage, stage_stats
from docstore.node.node import node_of
from docstore.node.read.cursors import MAX_BATCH_BYTES
from docstore.node.slices import PAUSE, Steps, step_end
from docstore.optime import unpack_timestamp

if TYPE_CHECKING:
    from docstore.node.change_streams.shared_reader import CommitProgress
    from docstore.node.node import DataNode

_TYPES = ("delete", "drop", "dropDatabase", "insert", "invalidate", "rename", "replace", "update")
"""Types of events that are reported without `showExpandedEvents`."""
_EVENTS_AT_ONCE = 1000
_ENTRIES_PER_LOOK = 128
_TRUE = (BOOL, b"\1")


def explain_change_stream(context: Context, collection: str | None, pipeline: Pipeline) -> Result:
    """Return the explain reply without execution statistics. Errors: those of opening the stream."""
    report = _StreamStages(context, collection, pipeline)
    stages = [report.cursor, *report.steps, *report.given_out, *map(shown_stage, report.behind.stages)]
    return {"explainVersion": "1", "stages": stages, **frame(context)}


def explain_run_of_change_stream(
    context: Context, collection: str | None, pipeline: Pipeline, *, all_plans: bool
) -> Steps[Result]:
    """Return the explain reply with execution statistics. Errors: those of the stream too."""
    node, report = node_of(context), _StreamStages(context, collection, pipeline)
    began = node.clock()
    scanned = yield from _scanned(node, report.start)
    stream = stream_of(node, report.stream_options, report.filtered)
    feed, events = Feed(), 0
    running = RunningPipeline(report.behind)
    try:
        stages = running.over_events(context, feed)
        while True:
            filling = StreamFilling(context, stream, _EVENTS_AT_ONCE, MAX_BATCH_BYTES)
            yield from filling.fill()
            events += filling.count
            feed.append(array_documents(b"".join(filling.array_parts()[0])))
            while stages.next_batch(math.inf)[0]:
                pass
            if filling.exhausted or not filling.count:
                break
            yield PAUSE
        seconds = node.clock() - began
    finally:
        stream.close()
        running.close()
    cursor = report.cursor["$cursor"]
    cursor["executionStats"] = _cursor_stats(cursor["queryPlanner"]["winningPlan"], *scanned, seconds)
    if all_plans:
        cursor["executionStats"]["allPlansExecution"] = []
    stage_documents = [report.cursor | stage_stats(scanned[1], seconds)]
    stage_documents += [step | stage_stats(stream.taken, seconds) for step in report.steps]
    stage_documents += [step | stage_stats(events, seconds) for step in report.given_out]
    return {"explainVersion": "1", "stages": [*stage_documents, *running.stage_documents(runs=True)], **frame(context)}


class _StreamStages:
    """A stream's stages in display order: oplog scan, steps from entries to events, image steps, the user's stages."""

    def __init__(self, context: Context, collection: str | None, pipeline: Pipeline) -> None:
        options, remaining = change_stream_of(pipeline)
        check_stream_concern(context)
        self.stream_options = StreamOptions(scope_asked(context, collection, options), options)
        self.start = beginning(node_of(context), options)
        filters, self.behind = leading_filters(remaining, self.stream_options)
        self.filtered = replace(remaining, stages=remaining.stages[: len(filters)])
        conditions = [] if options.expanded else [{"operationType": {"$in": list(_TYPES)}}]
        conditions += [filter_document(tree) for tree in filters]
        match = [{"$match": conditions[0] if len(conditions) == 1 else {"$and": conditions}}] if conditions else []
        self.cursor = _cursor(self.start)
        self.steps = _steps(pipeline, options, self.start)
        self.given_out = [*match, *_images(self.stream_options), *_token_check(options)]


def _scanned(node: DataNode, start: int) -> Steps[tuple[int, int]]:
    """Return (committed oplog entries from `start` on, those of them that pass the scan's filter)."""
    oplog, committed = node.store.oplog, cast("CommitProgress", node.replication).committed.timestamp
    assert oplog is not None, "the stage is refused on a node without one"
    examined = matches = 0
    until = step_end(node)
    for entry in oplog.scan(node.engine, start - 1):
        if entry_optime(entry).timestamp > committed:
            break
        examined += 1
        matches += get_field(entry, "fromMigrate") != _TRUE
        if examined % _ENTRIES_PER_LOOK == 0 and node.clock() >= until:
            yield PAUSE
            until = step_end(node)
    return examined, matches


def _cursor_stats(scan: dict[str, Any], examined: int, returned: int, seconds: float) -> dict[str, Any]:
    """Return the statistics of the scan, which has reached the end of the oplog but is not exhausted."""
    milliseconds = round(seconds * 1000)
    scan_fields = {name: scan[name] for name in ("direction", "minRecord")}
    stages = {
        "stage": scan["stage"], "filter": scan["filter"], "nReturned": returned,
        "executionTimeMillisEstimate": milliseconds, "works": examined + 1, "advanced": returned,
        "needTime": examined - returned, "needYield": 0, "saveState": 0, "restoreState": 0, "isEOF": 0, **scan_fields,
        "docsExamined": examined,
    }  # fmt: skip
    return {
        "executionSuccess": True, "nReturned": returned, "executionTimeMillis": milliseconds, "totalKeysExamined": 0,
        "totalDocsExamined": examined, "executionStages": stages,
    }  # fmt: skip


def _cursor(start: int) -> dict[str, Any]:
    """Return the oplog scan."""
    condition = {"$and": [{"ts": {"$gte": unpack_timestamp(start)}}, {"fromMigrate": {"$not": {"$eq": True}}}]}
    scan = {"stage": "COLLSCAN", "filter": condition, "direction": "forward", "minRecord": Int64(start)}
    planner = {
        "namespace": OPLOG_NS, "indexFilterSet": False, "parsedQuery": condition,
        "maxIndexedOrSolutionsReached": False, "maxIndexedAndSolutionsReached": False,
        "maxScansToExplodeReached": False, "winningPlan": scan, "rejectedPlans": [],
    }  # fmt: skip
    return {"$cursor": {"queryPlanner": planner}}


def _steps(pipeline: Pipeline, options: ChangeStreamOptions, start: int) -> list[dict[str, Any]]:
    """Return the steps from entries to events."""
    spec = document_to_python(pipeline.stages[0].raw)["$changeStream"]
    resume_points = {name: spec[name] for name in ("resumeAfter", "startAfter") if spec.get(name) is not None}
    transform: dict[str, Any] = dict(resume_points or {"startAtOperationTime": unpack_timestamp(start)})
    transform |= {"fullDocument": options.full_document, "fullDocumentBeforeChange": options.before_change}
    transform |= {name: True for name in ("showExpandedEvents", "allChangesForCluster") if spec.get(name)}
    steps = [
        {"stage": "internalUnwindTransaction"},
        {"stage": "internalTransform", "options": transform},
        {"stage": "internalCheckInvalidate"},
    ]
    token = options.token
    if token is None or token.is_mark:
        raw_token = high_water_mark(start) if token is None else token.raw
        steps.append({"stage": "internalCheckResumability", "resumeToken": RawBSONDocument(raw_token)})
    return [{"$changeStream": step} for step in steps]


def _images(stream_options: StreamOptions) -> list[dict[str, Any]]:
    """Return the steps that add pre-images and post-images."""
    steps = []
    if stream_options.wants_before:
        steps.append({"stage": "internalAddPreImage", "fullDocumentBeforeChange": stream_options.options.before_change})
    if stream_options.wants_full:
        steps.append(
            {"stage": "$_internalChangeStreamAddPostImage", "fullDocument": stream_options.options.full_document}
        )
    return [{"$changeStream": step} for step in steps]


def _token_check(options: ChangeStreamOptions) -> list[dict[str, Any]]:
    """Return the step that requires the event of the start token."""
    token = options.token
    if token is None or token.is_mark:
        return []
    step = {"stage": "internalEnsureResumeTokenPresent", "resumeToken": RawBSONDocument(token.raw)}
    return [{"$changeStream": step}]
