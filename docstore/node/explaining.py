"""explain: the plan of a command, and with executionStats what running it has looked at. Nothing is ever changed.

A write is explained by its search: what it would match is counted, not what it would write.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.aggregation.pipeline import Pipeline
from docstore.bson import document_to_python
from docstore.collection.collection import Collection
from docstore.collection.execute import PlanStats, open_find, plan_query
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.limits import COMPATIBLE_VERSION
from docstore.errors import CommandError
from docstore.node.cursors import SLICE_SECONDS
from docstore.node.explanation import query_planner, winning_plan
from docstore.node.node import node_of
from docstore.node.reading import View, view_of
from docstore.query.find import FindQuery, Hint
from docstore.query.plan import CollectionScan

VERBOSITIES = ("queryPlanner", "executionStats", "allPlansExecution")
_STEP_DOCUMENTS = 1000
_STEP_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """What is explained: a query, and the stage that a command puts around its plan (COUNT, DELETE, UPDATE)."""

    query: FindQuery
    stage: str | None = None
    counted: str | None = None
    """The field of that stage that says how many documents it met."""


async def explain_query(context: Context, subject: Subject, verbosity: str) -> Result:
    """The reply of explain for a command that searches one collection."""
    found = await _explained(context, subject, verbosity)
    return {"explainVersion": "1", **found, **_frame(context)}


async def explain_aggregate(context: Context, pipeline: Pipeline, hint: Hint | None, verbosity: str) -> Result:
    """The reply of explain for a pipeline: the find that feeds it, and the stages run over that."""
    if pipeline.has_source:
        stages = [document_to_python(stage.raw) for stage in pipeline.stages]
        return {"explainVersion": "1", "stages": stages, **_frame(context)}
    query, rest = pipeline.find_query(hint)
    found = await _explained(context, Subject(query), verbosity)
    if not rest.stages:
        return {"explainVersion": "1", **found, **_frame(context)}
    stages = [{"$cursor": found}, *(document_to_python(stage.raw) for stage in rest.stages)]
    return {"explainVersion": "1", "stages": stages, **_frame(context)}


async def _explained(context: Context, subject: Subject, verbosity: str) -> dict[str, Any]:
    node = node_of(context)
    viewing = view_of(context)
    view = await viewing if isawaitable(viewing) else viewing
    try:
        collection = node.store.collection(context.namespace)
        query = subject.query
        plan = plan_query(collection, query.filter, sort=query.sort, hint=query.hint)
        winning = winning_plan(query, plan, owned=view.owned is not None)
        if subject.stage is not None:
            winning = {"stage": subject.stage, "inputStage": winning}
        found: dict[str, Any] = {"queryPlanner": query_planner(context.namespace, query, winning)}
        if verbosity != "queryPlanner":
            found["executionStats"] = await _measured(context, subject, view, collection, winning)
    finally:
        view.release()
    return found


async def _measured(
    context: Context, subject: Subject, view: View, collection: Collection | None, winning: dict[str, Any]
) -> dict[str, Any]:
    """Run the query to its end and say what it took."""
    node = node_of(context)
    began = node.clock()
    source = open_find(collection, subject.query, view.reader, owned=view.owned, clock=node.clock)
    failure: CommandError | None = None
    try:
        while not source.next_batch(_STEP_DOCUMENTS, _STEP_BYTES, node.clock() + SLICE_SECONDS).exhausted:
            await node.pause()
            context.operation.check()
        stats = source.plan_stats()
    except CommandError as error:
        failure, stats = error, source.plan_stats()
    finally:
        source.close()
    examined = docs_examined(stats, collection)
    returned = 0 if subject.stage is not None else stats.returned
    stages = dict(winning)
    if subject.counted is not None:
        stages[subject.counted] = stats.returned
    found: dict[str, Any] = {"executionSuccess": failure is None}
    if failure is not None:
        found |= {"errorMessage": failure.message, "errorCode": failure.code}
    return found | {
        "nReturned": returned,
        "executionTimeMillis": round((node.clock() - began) * 1000),
        "totalKeysExamined": stats.keys_examined,
        "totalDocsExamined": examined,
        "executionStages": with_counts(stages, stats, examined),
    }


def docs_examined(stats: PlanStats, collection: Collection | None) -> int:
    """How many documents were looked at; a scan of the whole collection looks at all of them."""
    if isinstance(stats.plan.access, CollectionScan) and collection is not None:
        return stats.docs_examined or collection.count
    return stats.docs_examined


def with_counts(stage: dict[str, Any], stats: PlanStats, examined: int) -> dict[str, Any]:
    """The tree of stages with the figures beside the stages that they belong to."""
    counted = {"stage": stage["stage"], "nReturned": stats.returned}
    counted.update(stage)
    name = stage["stage"]
    if name in ("COLLSCAN", "FETCH", "IDHACK"):
        counted["docsExamined"] = examined
    if name in ("IXSCAN", "IDHACK"):
        counted["keysExamined"] = stats.keys_examined
    if "inputStage" in stage:
        counted["inputStage"] = with_counts(stage["inputStage"], stats, examined)
    return counted


def _frame(context: Context) -> dict[str, Any]:
    """What every reply of explain ends with: the command, and the server that answers."""
    settings = node_of(context).settings
    return {
        "command": RawBSONDocument(context.raw),
        "serverInfo": {
            "host": settings.host,
            "port": settings.port,
            "version": COMPATIBLE_VERSION,
            "gitVersion": "none",
        },
    }
