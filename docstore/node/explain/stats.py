"""The figures of an execution beside the stages of its plan.

The executor counts index entries, documents looked at, documents that matched and documents given. What the single
stages did follows from those: the real server counts one unit of work for each entry or document that a stage takes,
for each that it gives after having gathered, and for noticing the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docstore.collection.read.execute import PlanStats
from docstore.kernel.scan.fetch import Examined
from docstore.node.explain.plan import Stage, inputs_shown

_WRITES = frozenset(("UPDATE", "DELETE"))


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """What one stage did."""

    works: int
    advanced: int
    ended: bool

    def shown(self) -> dict[str, Any]:
        return {
            "nReturned": self.advanced,
            "executionTimeMillisEstimate": 0,
            "works": self.works,
            "advanced": self.advanced,
            "needTime": max(0, self.works - self.advanced - self.ended),
            "needYield": 0,
            "saveState": 0,
            "restoreState": 0,
            "isEOF": int(self.ended),
        }


@dataclass(frozen=True, slots=True)
class Run:
    """One execution. `returns_matches`: a write gives back the document that it changes."""

    stats: PlanStats
    returns_matches: bool = False
    upserts: bool = False


def execution(stage: Stage, run: Run) -> dict[str, Any]:
    """The tree with its figures, as `executionStages` shows it."""
    return _measured(stage, run)[0]


def _measured(stage: Stage, run: Run) -> tuple[dict[str, Any], ExecutionStats]:
    if stage.name in ("OR", "SORT_MERGE"):
        inputs = [_branch(each, run, place) for place, each in enumerate(stage.inputs)]
    else:
        inputs = [_measured(each, run) for each in stage.inputs]
    own, extra = _stats(stage, run, [execution_stats for _, execution_stats in inputs])
    shown: dict[str, Any] = {"stage": stage.name}
    if stage.condition is not None:
        shown["filter"] = stage.condition
    shown |= own.shown() | stage.details | extra
    return shown | inputs_shown(stage.name, [document for document, _ in inputs]), own


def _branch(stage: Stage, run: Run, place: int) -> tuple[dict[str, Any], ExecutionStats]:
    """One input of a union. What others have given before it gives too, and the union drops."""
    examined = run.stats.branches[place] if run.stats.branches else Examined()
    if stage.name == "EOF":
        execution_stats = ExecutionStats(1, 0, True)
        extra: dict[str, Any] = {}
    else:
        within = examined.keys - examined.seeks - examined.ended_by_key
        given = examined.documents if stage.details["isMultiKey"] and run.stats.examined is not examined else within
        execution_stats, extra = _index_stats(stage, examined, given, run.stats.exhausted)
    return {"stage": stage.name} | execution_stats.shown() | stage.details | extra, execution_stats


def _stats(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> tuple[ExecutionStats, dict[str, Any]]:
    stats = run.stats
    keys, documents = stats.keys_examined, stats.docs_examined
    end = int(stats.exhausted)
    below = inputs[0] if inputs else ExecutionStats(0, 0, stats.exhausted)
    match stage.name:
        case "EOF":
            return ExecutionStats(1, 0, True), {}
        case "IDHACK" | "GEO_NEAR_2D" | "GEO_NEAR_2DSPHERE":
            examined = {"keysExamined": keys, "docsExamined": documents}
            return ExecutionStats(documents + end, stats.matched, stats.exhausted), examined
        case "COLLSCAN":
            return ExecutionStats(documents + 1 + end, stats.matched, stats.exhausted), {"docsExamined": documents}
        case "IXSCAN":
            given = stats.matched if stats.covered or stats.counted else documents
            return _index_stats(stage, stats.examined, given, stats.exhausted)
        case "DISTINCT_SCAN":
            given = stats.matched if stats.covered else documents
            works = keys + int(stats.exhausted and not stats.examined.ended_by_key)
            return ExecutionStats(works, given, stats.exhausted), {"keysExamined": keys}
        case "PROJECTION_COVERED" if stats.sorts:
            return below, {}
        case "COUNT_SCAN":
            return ExecutionStats(keys, stats.matched, stats.exhausted), {"keysExamined": keys}
        case "OR":
            given = sum(each.advanced for each in inputs)
            return ExecutionStats(sum(each.works for each in inputs), documents, stats.exhausted), {
                "dupsTested": given,
                "dupsDropped": given - documents,
            }
        case "SORT_MERGE":
            works = sum(each.works for each in inputs)
            return ExecutionStats(works + documents, documents, stats.exhausted), {
                "dupsTested": sum(each.advanced for each in inputs),
                "dupsDropped": stats.examined.keys - documents,
            }
        case "TEXT_MATCH":
            rejected = {"docsRejected": documents - stats.matched}
            return ExecutionStats(below.works, stats.matched, stats.exhausted), rejected
        case "FETCH":
            fetched = {"docsExamined": documents, "alreadyHasObj": 0}
            return ExecutionStats(below.works, stats.matched, stats.exhausted), fetched
        case "SORT":
            # It gathers all, then gives; noticing the end of its input is the beginning of giving.
            return ExecutionStats(below.works + stats.returned + 1, stats.returned, True), {
                "totalDataSizeSorted": stats.sorted_bytes,
                "usedDisk": False,
                "spills": 0,
            }
        case "LIMIT":
            return ExecutionStats(below.works + (0 if below.ended else 1), stats.returned, True), {}
        case "COUNT":
            return ExecutionStats(max(1, below.works), 0, True), {"nCounted": stats.returned, "nSkipped": stats.skipped}
        case "RECORD_STORE_FAST_COUNT":
            return ExecutionStats(1, 0, True), {"nCounted": stats.returned, "nSkipped": stats.skipped}
        case _ if stage.name in _WRITES:
            return _write_figures(stage, run, below)
        case _:
            return ExecutionStats(below.works, min(below.advanced, stats.returned), below.ended), {}


def _index_stats(stage: Stage, examined: Examined, given: int, ended: bool) -> tuple[ExecutionStats, dict[str, Any]]:
    several = bool(stage.details["isMultiKey"])
    tested = examined.keys - examined.seeks - examined.ended_by_key if several else 0
    return ExecutionStats(examined.keys + int(ended and not examined.ended_by_key), given, ended), {
        "keysExamined": examined.keys,
        "seeks": examined.seeks + 1,
        "dupsTested": tested,
        "dupsDropped": tested - given if several else 0,
    }


def _write_figures(stage: Stage, run: Run, below: ExecutionStats) -> tuple[ExecutionStats, dict[str, Any]]:
    matched = run.stats.matched
    given = matched if run.returns_matches else 0
    execution_stats = ExecutionStats(below.works + (0 if below.ended else 1), given, True)
    if stage.name == "DELETE":
        return execution_stats, {"nWouldDelete": matched}
    return execution_stats, {
        "nMatched": matched,
        "nWouldModify": matched,
        "nWouldUpsert": int(run.upserts and not matched),
    }
