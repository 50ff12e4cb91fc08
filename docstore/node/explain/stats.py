"""Execution statistics of the stages of a plan, as `executionStats` shows them.

The executor counts index entries, documents examined, matched and returned; the figures of the stages follow from
these. In the reference a unit of work is an entry or document that a stage takes, a document that a blocking stage
returns, or the detection of the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docstore.collection.read.access import PlanStats
from docstore.kernel.scan.fetch import Examined
from docstore.node.explain.plan import Stage, inputs_shown


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """Work of one stage."""

    works: int
    advanced: int
    ended: bool

    def document(self) -> dict[str, Any]:
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
    """One execution. `returns_matches`: a write returns the document that it changes."""

    stats: PlanStats
    returns_matches: bool = False
    upserts: bool = False


def execution(stage: Stage, run: Run) -> dict[str, Any]:
    """Return the tree with its statistics, as `executionStages` shows it."""
    return _measured(stage, run)[0]


def _measured(stage: Stage, run: Run) -> tuple[dict[str, Any], ExecutionStats]:
    if stage.name in ("OR", "SORT_MERGE"):
        inputs = [_branch(child, run, position) for position, child in enumerate(stage.inputs)]
    else:
        inputs = [_measured(child, run) for child in stage.inputs]
    own, extra = _STATS.get(stage.name, _passing)(stage, run, [stats for _, stats in inputs])
    stage_document: dict[str, Any] = {"stage": stage.name}
    if stage.condition is not None:
        stage_document["filter"] = stage.condition
    stage_document |= own.document() | stage.details | extra
    return stage_document | inputs_shown(stage.name, [document for document, _ in inputs]), own


def _branch(stage: Stage, run: Run, position: int) -> tuple[dict[str, Any], ExecutionStats]:
    """Return one input of a union, including documents that the union drops as duplicates."""
    examined = run.stats.branches[position] if run.stats.branches else Examined()
    if stage.name == "EOF":
        execution_stats = ExecutionStats(1, 0, True)
        extra: dict[str, Any] = {}
    else:
        keys = examined.keys - examined.seeks - examined.ended_by_key
        advanced = examined.documents if stage.details["isMultiKey"] and run.stats.examined is not examined else keys
        execution_stats, extra = _index_stats(stage, examined, advanced, run.stats.exhausted)
    return {"stage": stage.name} | execution_stats.document() | stage.details | extra, execution_stats


Measured = tuple[ExecutionStats, dict[str, Any]]
"""(Statistics of a stage, further fields that it shows.)"""


def _eof(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    return ExecutionStats(1, 0, True), {}


def _lookup(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    examined = {"keysExamined": stats.keys_examined, "docsExamined": stats.docs_examined}
    return ExecutionStats(stats.docs_examined + int(stats.exhausted), stats.matched, stats.exhausted), examined


def _collection_scan(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    works = stats.docs_examined + 1 + int(stats.exhausted and not stats.examined.ended_by_key)
    return ExecutionStats(works, stats.matched, stats.exhausted), {"docsExamined": stats.docs_examined}


def _index_scan(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    advanced = stats.matched if stats.covered or stats.counted else stats.docs_examined
    return _index_stats(stage, stats.examined, advanced, stats.exhausted)


def _index_stats(stage: Stage, examined: Examined, advanced: int, ended: bool) -> Measured:
    several = bool(stage.details["isMultiKey"])
    tested = examined.keys - examined.seeks - examined.ended_by_key if several else 0
    return ExecutionStats(examined.keys + int(ended and not examined.ended_by_key), advanced, ended), {
        "keysExamined": examined.keys,
        "seeks": examined.seeks + 1,
        "dupsTested": tested,
        "dupsDropped": tested - advanced if several else 0,
    }


def _distinct_scan(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    advanced = stats.matched if stats.covered else stats.docs_examined
    works = stats.keys_examined + int(stats.exhausted and not stats.examined.ended_by_key)
    return ExecutionStats(works, advanced, stats.exhausted), {"keysExamined": stats.keys_examined}


def _count_scan(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    return ExecutionStats(stats.keys_examined, stats.matched, stats.exhausted), {"keysExamined": stats.keys_examined}


def _covered_projection(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    return (inputs[0], {}) if run.stats.sorts else _passing(stage, run, inputs)


def _or(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    tested, documents = sum(branch.advanced for branch in inputs), run.stats.docs_examined
    works = sum(branch.works for branch in inputs)
    dropped = {"dupsTested": tested, "dupsDropped": tested - documents}
    return ExecutionStats(works, documents, run.stats.exhausted), dropped


def _sort_merge(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    tested, documents = sum(branch.advanced for branch in inputs), run.stats.docs_examined
    works = sum(branch.works for branch in inputs) + documents
    dropped = {"dupsTested": tested, "dupsDropped": run.stats.examined.keys - documents}
    return ExecutionStats(works, documents, run.stats.exhausted), dropped


def _text_match(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    rejected = {"docsRejected": stats.docs_examined - stats.matched}
    return ExecutionStats(_below(run, inputs).works, stats.matched, stats.exhausted), rejected


def _fetch(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    stats = run.stats
    fetched = {"docsExamined": stats.docs_examined, "alreadyHasObj": 0}
    return ExecutionStats(_below(run, inputs).works, stats.matched, stats.exhausted), fetched


def _sort(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    # A blocking sort first consumes its input; detecting the end counts as the start of its output.
    returned = run.stats.returned
    sorting = {"totalDataSizeSorted": run.stats.sorted_bytes, "usedDisk": False, "spills": 0}
    return ExecutionStats(_below(run, inputs).works + returned + 1, returned, True), sorting


def _limit(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    return ExecutionStats(_works_to_the_end(_below(run, inputs)), run.stats.returned, True), {}


def _count(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    counted = {"nCounted": run.stats.returned, "nSkipped": run.stats.skipped}
    return ExecutionStats(max(1, _below(run, inputs).works), 0, True), counted


def _fast_count(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    return ExecutionStats(1, 0, True), {"nCounted": run.stats.returned, "nSkipped": run.stats.skipped}


def _delete(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    return _write(run, inputs), {"nWouldDelete": run.stats.matched}


def _update(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    matched = run.stats.matched
    upserts = int(run.upserts and not matched)
    return _write(run, inputs), {"nMatched": matched, "nWouldModify": matched, "nWouldUpsert": upserts}


def _write(run: Run, inputs: list[ExecutionStats]) -> ExecutionStats:
    advanced = run.stats.matched if run.returns_matches else 0
    return ExecutionStats(_works_to_the_end(_below(run, inputs)), advanced, True)


def _passing(stage: Stage, run: Run, inputs: list[ExecutionStats]) -> Measured:
    """Return the statistics of a stage that passes its input on."""
    below = _below(run, inputs)
    return ExecutionStats(below.works, min(below.advanced, run.stats.returned), below.ended), {}


def _below(run: Run, inputs: list[ExecutionStats]) -> ExecutionStats:
    return inputs[0] if inputs else ExecutionStats(0, 0, run.stats.exhausted)


def _works_to_the_end(below: ExecutionStats) -> int:
    return below.works + (0 if below.ended else 1)


_STATS: dict[str, Callable[[Stage, Run, list[ExecutionStats]], Measured]] = {
    "CLUSTERED_IXSCAN": _collection_scan,
    "COLLSCAN": _collection_scan,
    "COUNT": _count,
    "COUNT_SCAN": _count_scan,
    "DELETE": _delete,
    "DISTINCT_SCAN": _distinct_scan,
    "EOF": _eof,
    "FETCH": _fetch,
    "GEO_NEAR_2D": _lookup,
    "GEO_NEAR_2DSPHERE": _lookup,
    "IDHACK": _lookup,
    "IXSCAN": _index_scan,
    "LIMIT": _limit,
    "OR": _or,
    "PROJECTION_COVERED": _covered_projection,
    "RECORD_STORE_FAST_COUNT": _fast_count,
    "SORT": _sort,
    "SORT_MERGE": _sort_merge,
    "TEXT_MATCH": _text_match,
    "UPDATE": _update,
}
"""Statistics functions: (stage, run, statistics of its inputs). Other stages pass their input on."""
