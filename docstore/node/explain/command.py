"""explain of commands: their plan, and with executionStats the work of running it. Nothing is ever changed.

A write is explained by its search: the statistics count what it would match, not what it would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.aggregation.streams import Stream
from docstore.collection.collection import Collection, Index
from docstore.collection.read.access import PlanStats
from docstore.collection.read.counting import Counting, counts_at_once, counts_entries, plan_count
from docstore.collection.read.covered import covers_filter, covers_query
from docstore.collection.read.execute import Source
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.collection.read.sorter import MAX_BYTES
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import CommandError
from docstore.node.explain.plan import (
    Stage,
    access_stage,
    count_scan,
    find_stages,
    index_scan,
    query_planner,
)
from docstore.node.explain.shown_command import shown_command
from docstore.node.explain.stats import Run, execution
from docstore.node.node import node_of
from docstore.node.pipeline.collections import FindStream
from docstore.node.read.snapshot import View, view_of
from docstore.node.read.sources import DocumentSource
from docstore.node.slices import finish_steps, until_done
from docstore.query.find import FindQuery
from docstore.query.pausing import PAUSED, allowing
from docstore.query.plan.access import IndexScan, Plan
from docstore.query.value.collation import Collation

VERBOSITIES = ("queryPlanner", "executionStats", "allPlansExecution")


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an explain: a query, and the stage that its command adds to the plan (COUNT, DELETE, UPDATE).

    `returns_matches`: the command returns the document that it changes. `upserts`: it inserts one if none matches.
    """

    query: FindQuery
    stage: str | None = None
    projection: bytes | None = None
    returns_matches: bool = False
    upserts: bool = False
    collation: Collation | None = None


async def explain_query(context: Context, subject: Subject, verbosity: str) -> Result:
    """Return the explain reply for a command that searches one collection."""
    sections = await explained(context, subject, verbosity)
    return {"explainVersion": "1", **sections, **frame(context)}


Over = Callable[[Context, View, DocumentSource], Stream]
"""Opens a stream over the documents of a search."""


async def explained(
    context: Context, subject: Subject, verbosity: str, open_stream: Over | None = None
) -> dict[str, Any]:
    """Return the reply's sections about the plan and, depending on the verbosity, its execution."""
    node = node_of(context)
    view = await finish_steps(context, view_of(context))
    try:
        collection = node.store.collection(context.namespace)
        indexes = usable_indexes(collection)
        plan, winning, planner = allowing(PAUSED, lambda: _planned(context, subject, view, collection, indexes))
        reply: dict[str, Any] = {"queryPlanner": planner}
        if verbosity != "queryPlanner":
            reply["executionStats"] = await _measured(
                context, subject, view, collection, indexes, plan, winning, open_stream
            )
        if verbosity == "allPlansExecution":
            reply["executionStats"]["allPlansExecution"] = []
    finally:
        view.release()
    return reply


def _planned(
    context: Context, subject: Subject, view: View, collection: Collection | None, indexes: Sequence[Index]
) -> tuple[Plan, Stage, dict[str, Any]]:
    """Return (the plan, the stage tree, the queryPlanner section)."""
    query = subject.query
    if subject.stage == "COUNT":
        plan = plan_count(collection, query, view.reader, indexes=indexes, kept=False)
    else:
        plan = plan_query(collection, query, view.reader, view.owned, indexes, kept=False)
    winning = _stages(subject, plan, view)
    parsed = not (subject.stage is not None and _innermost(winning) in ("IDHACK", "RECORD_STORE_FAST_COUNT"))
    rejected = [_stages(subject, candidate, view) for candidate in plan.rejected]
    limited = collection is not None and collection.index_filters.of_query(query) is not None
    section = query_planner(
        context.namespace, query, winning, rejected, parsed=parsed, collation=subject.collation, limited=limited
    )
    return plan, winning, section


def _stages(subject: Subject, plan: Plan, view: View) -> Stage:
    """Return the stage tree: the command's stage over the plan's."""
    if subject.stage == "COUNT":
        if counts_at_once(plan, view.owned):
            return Stage("RECORD_STORE_FAST_COUNT")
        if counts_entries(plan, view.owned):
            assert isinstance(plan.access, IndexScan)
            return Stage("COUNT", inputs=[count_scan(plan.access) or index_scan(plan.access)])
        inner = access_stage(plan, covered=view.owned is None and covers_filter(plan))
        return Stage("COUNT", inputs=[inner if view.owned is None else Stage("SHARDING_FILTER", inputs=[inner])])
    query = subject.query if subject.stage is None else replace(subject.query, limit=0)
    stage = find_stages(
        query,
        plan,
        owned=view.owned is not None,
        projection=subject.projection,
        covered=view.owned is None and covers_query(query, plan),
    )
    return stage if subject.stage is None else Stage(subject.stage, inputs=[stage])


_COUNTED = frozenset(("COUNT_SCAN", "RECORD_STORE_FAST_COUNT", "IXSCAN"))
"""Stages from which a count needs no documents."""


def _innermost(stage: Stage) -> str:
    return _innermost(stage.inputs[0]) if stage.inputs else stage.name


async def _measured(
    context: Context,
    subject: Subject,
    view: View,
    collection: Collection | None,
    indexes: Sequence[Index],
    plan: Plan,
    winning: Stage,
    open_stream: Over | None,
) -> dict[str, Any]:
    """Run the query to its end, or as far as `open_stream` reads, and return the executionStats section."""
    node = node_of(context)
    began = node.clock()
    failure: CommandError | None = None
    if subject.stage == "COUNT" and _innermost(winning) in _COUNTED:
        stats = await _counted(context, subject, view, collection, winning)
    else:
        if subject.stage == "COUNT":
            # The plan of this find may differ from that of the count.
            plan = allowing(PAUSED, lambda: plan_query(collection, subject.query, view.reader, view.owned, indexes))
        source = allowing(
            PAUSED,
            lambda: Source(collection, subject.query, plan, view.reader, view.owned, node.clock, measured=True),
        )
        stats = source.plan_stats()
        stream = FindStream(source) if open_stream is None else open_stream(context, view, source)
        try:
            await finish_steps(context, until_done(node, lambda until: stream.next_batch(until)[1]))
        except CommandError as error:
            failure = error
        finally:
            source.close()
    section: dict[str, Any] = {"executionSuccess": failure is None}
    if failure is not None:
        section |= {"errorMessage": failure.message, "errorCode": failure.code}
    run = Run(stats, returns_matches=subject.returns_matches, upserts=subject.upserts)
    document_count = stats.matched if subject.returns_matches else stats.returned
    return section | {
        "nReturned": document_count if subject.stage is None or subject.returns_matches else 0,
        "executionTimeMillis": round((node.clock() - began) * 1000),
        "totalKeysExamined": stats.keys_examined,
        "totalDocsExamined": stats.docs_examined,
        "executionStages": execution(winning, run),
    }


async def _counted(
    context: Context, subject: Subject, view: View, collection: Collection | None, winning: Stage
) -> PlanStats:
    """Return the statistics of a count that reads no documents."""
    node = node_of(context)
    query = subject.query
    plan = plan_count(collection, query, view.reader, kept=False)
    counting = Counting(collection, query, plan, view.reader, view.owned, node.clock)
    await finish_steps(context, until_done(node, counting.advance))
    stats = PlanStats(plan, returned=counting.count)
    stats.skipped = min(query.skip, counting.found)
    stats.matched = counting.found
    stats.exhausted = True
    stats.counted = True
    if _innermost(winning) == "COUNT_SCAN":
        # The first entry beyond the limit is examined too.
        stats.examined.keys = counting.entries + 1
    elif winning.name == "COUNT":
        stats.examined = counting.examined
        stats.examined.keys += counting.entries
    return stats


def frame(context: Context, command: bytes | None = None) -> dict[str, Any]:
    """Return the common end of explain replies: the command (by default that of the request), and the server."""
    settings = node_of(context).settings
    return {
        "command": RawBSONDocument(shown_command(context) if command is None else command),
        "serverInfo": {
            "host": settings.host,
            "port": settings.port,
            "version": context.services.switches.face.version,
            "gitVersion": "none",
        },
        "serverParameters": {"internalQueryMaxBlockingSortMemoryUsageBytes": MAX_BYTES},
    }
