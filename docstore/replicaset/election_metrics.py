"""The section `electionMetrics` of serverStatus."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.replication.election_counts import CatchUpEnd, ElectionCounts
from docstore.replication.roles import BY_CATCH_UP, BY_PRIORITY, BY_REFUSED_PORT, BY_STEP_UP, BY_TIMEOUT

_REASONS = {
    "stepUpCmd": BY_STEP_UP,
    "priorityTakeover": BY_PRIORITY,
    "catchUpTakeover": BY_CATCH_UP,
    "electionTimeout": BY_TIMEOUT,
    "freezeTimeout": "",
    "primaryPortRefused": BY_REFUSED_PORT,
}
"""Election reasons by field. `freezeTimeout` has none: after a freeze the election timeout decides."""
_ENDS = {
    "numCatchUpsSucceeded": CatchUpEnd.SUCCEEDED,
    "numCatchUpsAlreadyCaughtUp": CatchUpEnd.ALREADY_CAUGHT_UP,
    "numCatchUpsSkipped": CatchUpEnd.SKIPPED,
    "numCatchUpsTimedOut": CatchUpEnd.TIMED_OUT,
    "numCatchUpsFailedWithError": CatchUpEnd.FAILED,
    "numCatchUpsFailedWithNewTerm": CatchUpEnd.NEW_TERM,
    "numCatchUpsFailedWithReplSetAbortPrimaryCatchUpCmd": CatchUpEnd.ABORTED,
}


def election_metrics(counts: ElectionCounts) -> dict[str, Any]:
    """Return the section for these counts."""
    return {
        **{
            name: {"called": Int64(counts.called[reason]), "successful": Int64(counts.won[reason])}
            for name, reason in _REASONS.items()
        },
        "numStepDownsCausedByHigherTerm": Int64(counts.step_downs_by_higher_term),
        "numCatchUps": Int64(counts.catch_ups),
        **{name: Int64(counts.catch_up_ends[end]) for name, end in _ENDS.items()},
    }
