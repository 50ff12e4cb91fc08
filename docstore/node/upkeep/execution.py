"""Execution figures of a request's plans, for the profiler and the log of slow requests.

The executor counts these figures anyway. Full collection scans are counted only if the profiler requests exact figures
(`is_profiled`). Such requests take the general path, because prepared scans count nothing and end within a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstore.bson import document_to_python
from docstore.bson.walk import Value
from docstore.collection.collection import Index
from docstore.collection.read.access import PlanStats
from docstore.commands.context import Context
from docstore.commands.cursors import ClientCursor
from docstore.kernel.scan.fetch import Examined
from docstore.query.plan.access import Access, CollectionScan, Eof, IdLookup, IndexScan, Merge, NearScan, Plan, Union
from docstore.query.plan.index_bounds import IndexInfo

Statistics = Callable[[], PlanStats]
"""Returns the statistics of a running plan; they are replaced if the plan is chosen again."""


class Execution:
    """The plans of a request: the first is named in the summary, the figures are totals.

    * `exact`: every document is counted.
    * `sorts`: the results are sorted outside the plan.
    * `cursor`, `origin`: the cursor of a batch, and the command that opened it.
    * `counts`: see `docstore.commands.host.Execution`.
    * `modified`: documents changed by a findAndModify.
    """

    __slots__ = (
        "_documents", "_first", "_keys", "_running", "_whole",
        "counts", "cursor", "exact", "modified", "origin", "sorts",
    )  # fmt: skip

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.counts: dict[str, int] = {}
        self.sorts = False
        self.cursor = 0
        self.modified = 0
        self.origin = b""
        self._first: Statistics | None = None
        self._running: Statistics | None = None
        self._keys = 0
        self._documents = 0
        # True for a scan of a whole collection.
        self._whole = False

    def add(self, statistics: Statistics) -> None:
        """Add a plan; the figures of the preceding one are final."""
        if self._running is not None:
            stats = self._running()
            self._keys += stats.keys_examined
            self._documents += stats.docs_examined
        else:
            self._first = statistics
        self._running = statistics
        self._whole = self._whole or isinstance(statistics().plan.access, CollectionScan)

    def search(self, plan: Plan) -> PlanStats:
        """Return the statistics of a write's search, which begins."""
        stats = PlanStats(plan)
        if self.exact:
            stats.ahead = 1
        self.add(lambda: stats)
        return stats

    def lookup(self, identity: Value, *, exists: bool) -> None:
        """Count a write's lookup by `_id`, if figures are exact."""
        if self.exact:
            examined = Examined()
            examined.keys = examined.documents = int(exists)
            stats = PlanStats(Plan(IdLookup(identity), None, provides_sort=False), examined=examined)
            self.add(lambda: stats)

    def since(self, cursor: ClientCursor) -> Execution:
        """Return a record of the same plans with the figures of the cursor's next batch."""
        later = Execution(exact=self.exact)
        later.sorts, later.cursor, later.origin = self.sorts, cursor.id, cursor.origin
        later._first, later._running, later._whole = self._first, self._running, self._whole
        if self._running is not None:
            stats = self._running()
            later._keys, later._documents = -stats.keys_examined, -stats.docs_examined
        return later

    def figures(self) -> dict[str, Any]:
        """Return `{planSummary, keysExamined, docsExamined?, hasSortStage?, fromMultiPlanner?}`.

        {} if no plan has run.
        """
        if self._first is None or self._running is None:
            return {}
        first, running = self._first(), self._running()
        figures: dict[str, Any] = {"planSummary": plan_summary(first)}
        figures["keysExamined"] = self._keys + running.keys_examined
        if self.exact or not self._whole:
            figures["docsExamined"] = self._documents + running.docs_examined
        if first.sorts or self.sorts:
            figures["hasSortStage"] = True
        if first.plan.rejected and first.plan.works:
            figures["fromMultiPlanner"] = True
        return figures


def is_profiled(context: Context) -> bool:
    """Return True if the profiler requests exact figures for the request's database."""
    profiled = context.services.switches.profiled
    return bool(profiled) and context.db in profiled


def execution_of(context: Context) -> Execution:
    """Return the execution record of a request; created on first use."""
    progress = context.progress
    execution = progress.execution
    if not isinstance(execution, Execution):
        progress.execution = execution = Execution(exact=is_profiled(context))
    return execution


def plan_summary(stats: PlanStats) -> str:
    """Return the access paths of a plan with their key patterns: "IXSCAN { a: 1 }, IXSCAN { b: 1 }"."""
    plan = stats.plan
    if stats.counted:
        if isinstance(plan.access, IndexScan):
            return _named("IXSCAN" if plan.access.checked else "COUNT_SCAN", plan.access.index)
        return "RECORD_STORE_FAST_COUNT"
    if isinstance(plan.access, IdLookup) and plan.residual is None:
        return "IDHACK"
    return _summary(plan.access)


def _summary(access: Access) -> str:
    match access:
        case Eof():
            return "EOF"
        case CollectionScan():
            return "COLLSCAN" if access.least is None and access.greatest is None else "CLUSTERED_IXSCAN"
        case IdLookup():
            return "IXSCAN { _id: 1 }"
        case IndexScan():
            return _named("DISTINCT_SCAN" if access.once else "IXSCAN", access.index)
        case NearScan():
            return _named(
                "GEO_NEAR_2D" if "2d" in _pattern(access.index).values() else "GEO_NEAR_2DSPHERE", access.index
            )
        case Union(branches) | Merge(branches):
            return ", ".join(map(_summary, branches))


def _pattern(index: IndexInfo) -> dict[str, Any]:
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    return document_to_python(index.spec.key)


def _named(name: str, index: IndexInfo) -> str:
    fields = [
        f'{path}: "{direction}"' if isinstance(direction, str) else f"{path}: {direction:g}"
        for path, direction in _pattern(index).items()
    ]
    return f"{name} {{ {', '.join(fields)} }}"
