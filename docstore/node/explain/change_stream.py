"""explain of a change stream: where in the oplog it begins, and the steps that make events of what it reads there.

The names and the order of the steps are those of MongoDB 6.0. Nothing is read, so there are no execution statistics.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.change_stream.options import ChangeStreamOptions
from docstore.aggregation.change_stream.token import high_water_mark
from docstore.aggregation.pipeline import Pipeline
from docstore.aggregation.stages.change_stream import change_stream_of
from docstore.bson import document_to_python
from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.aggregate import check_stream_concern
from docstore.node.change_streams.opening import beginning, scope_asked
from docstore.node.change_streams.stream import StreamOptions, leading_filters
from docstore.node.explain.command import frame
from docstore.node.explain.filter import filter_document
from docstore.node.explain.pipeline import shown_stage
from docstore.node.node import node_of
from docstore.optime import unpack_timestamp
from docstore.query.unsupported import not_supported

_TYPES = ("delete", "drop", "dropDatabase", "insert", "invalidate", "rename", "replace", "update")
"""Of the events that are told to those who have not asked for more."""


def explain_change_stream(context: Context, collection: str | None, pipeline: Pipeline, verbosity: str) -> Result:
    """The reply of explain. Errors: those of opening the stream; NotImplemented for another verbosity than
    "queryPlanner".
    """
    if verbosity != "queryPlanner":
        raise not_supported("explain with execution statistics of", "$changeStream")
    options, rest = change_stream_of(pipeline)
    check_stream_concern(context)
    asked = StreamOptions(scope_asked(context, collection, options), options)
    start = beginning(node_of(context), options)
    filters, behind = leading_filters(rest, asked)
    wanted = [] if options.expanded else [{"operationType": {"$in": list(_TYPES)}}]
    wanted += [filter_document(each) for each in filters]
    match = [{"$match": wanted[0] if len(wanted) == 1 else {"$and": wanted}}] if wanted else []
    stages = [_cursor(start), *_steps(pipeline, options, start), *match, *_images(asked), *_met(options)]
    return {"explainVersion": "1", "stages": [*stages, *map(shown_stage, behind.stages)], **frame(context)}


def _cursor(start: int) -> dict[str, Any]:
    """The scan of the oplog."""
    condition = {"$and": [{"ts": {"$gte": unpack_timestamp(start)}}, {"fromMigrate": {"$not": {"$eq": True}}}]}
    scan = {"stage": "COLLSCAN", "filter": condition, "direction": "forward", "minRecord": Int64(start)}
    planner = {
        "namespace": OPLOG_NS, "indexFilterSet": False, "parsedQuery": condition,
        "maxIndexedOrSolutionsReached": False, "maxIndexedAndSolutionsReached": False,
        "maxScansToExplodeReached": False, "winningPlan": scan, "rejectedPlans": [],
    }  # fmt: skip
    return {"$cursor": {"queryPlanner": planner}}


def _steps(pipeline: Pipeline, options: ChangeStreamOptions, start: int) -> list[dict[str, Any]]:
    """From entries to events."""
    given = document_to_python(pipeline.stages[0].raw)["$changeStream"]
    places = {name: given[name] for name in ("resumeAfter", "startAfter") if given.get(name) is not None}
    shown: dict[str, Any] = dict(places or {"startAtOperationTime": unpack_timestamp(start)})
    shown |= {"fullDocument": options.full_document, "fullDocumentBeforeChange": options.before_change}
    shown |= {name: True for name in ("showExpandedEvents", "allChangesForCluster") if given.get(name)}
    steps = [
        {"stage": "internalUnwindTransaction"},
        {"stage": "internalTransform", "options": shown},
        {"stage": "internalCheckInvalidate"},
    ]
    token = options.token
    if token is None or token.is_mark:
        place = high_water_mark(start) if token is None else token.raw
        steps.append({"stage": "internalCheckResumability", "resumeToken": RawBSONDocument(place)})
    return [{"$changeStream": step} for step in steps]


def _images(asked: StreamOptions) -> list[dict[str, Any]]:
    """Where documents before and behind changes are put in."""
    steps = []
    if asked.wants_before:
        steps.append({"stage": "internalAddPreImage", "fullDocumentBeforeChange": asked.options.before_change})
    if asked.wants_full:
        steps.append({"stage": "$_internalChangeStreamAddPostImage", "fullDocument": asked.options.full_document})
    return [{"$changeStream": step} for step in steps]


def _met(options: ChangeStreamOptions) -> list[dict[str, Any]]:
    """Where the event must come by whose token the stream was opened."""
    token = options.token
    if token is None or token.is_mark:
        return []
    step = {"stage": "internalEnsureResumeTokenPresent", "resumeToken": RawBSONDocument(token.raw)}
    return [{"$changeStream": step}]
