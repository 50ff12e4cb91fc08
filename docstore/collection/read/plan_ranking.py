"""Plan ranking: a short trial of candidate plans.

The index that looks best by the form of its bounds may not have the shortest ranges, and a plan without a sort returns
its first documents sooner. The plans take turns, each examining one more entry or document, until one ends or has
returned enough. Then they are ranked by documents returned per examined entry, and by having ended. Ties are decided by
the form of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from docstore.collection.limits import MAX_TRIAL_PLANS, MAX_TRIAL_STEPS
from docstore.kernel.match.predicate import Predicate
from docstore.query.plan.access import Plan

ENOUGH = 101
"""The plan that first returns this number of documents wins."""

_END = 1.0
_NO_SORT = 0.0001


@dataclass(slots=True)
class Trial:
    """A plan on trial: its documents, the examined entries, and the number of matches."""

    plan: Plan
    documents: Iterator[bytes]
    predicate: Predicate | None
    looks: Callable[[], int]
    """Returns the number of entries examined, or documents if there are no entries."""

    blocking: bool
    found: int = 0
    ended: bool = False

    def look(self, most: int) -> None:
        """Read documents until `most` entries have been examined."""
        while not self.ended and self.looks() < most:
            raw = next(self.documents, None)
            if raw is None:
                self.ended = True
            elif self.predicate is None or self.predicate.matches(raw):
                self.found += 1

    def score(self) -> float:
        """The rank, higher is better; a plan with an in-memory sort has returned nothing before its end."""
        works = max(1, self.looks() + self.ended)
        if self.blocking:
            return self.found / (works + self.found) + _END if self.ended else 0.0
        return self.found / works + _END * self.ended + _NO_SORT


def best_of(plan: Plan, begin: Callable[[Plan], Trial], wanted: int) -> Plan:
    """Return the best plan for `wanted` documents, of the plan and its `rejected` ones; the others become its
    `rejected`.
    """
    plans = (replace(plan, rejected=()), *plan.rejected)
    trials = [begin(candidate) for candidate in plans[:MAX_TRIAL_PLANS]]
    for looks in range(1, MAX_TRIAL_STEPS):
        for trial in trials:
            trial.look(looks)
        if any(trial.ended or (trial.found >= wanted and not trial.blocking) for trial in trials):
            break
    best = max(trials, key=Trial.score)
    rejected_plans = tuple(other for other in plans if other is not best.plan)
    return replace(best.plan, rejected=rejected_plans, works=max(1, best.looks()))
