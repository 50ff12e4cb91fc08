"""Which of several plans to run: they are tried side by side, for a short while.

The ranges of the likeliest index by the form of its bounds need not be the shortest, and a plan without an order to
make gives its first documents sooner. Each plan in turn looks at one more entry or document, until one has come to its
end or has given enough; then what each has given for its looking counts, and the end. Plans that are equal in that are
told apart by the form of their bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from docstore.kernel.match.predicate import Predicate
from docstore.query.plan.access import Plan

_MOST_PLANS = 6
_MOST_LOOKS = 1_000
ENOUGH = 101
"""A plan that has given so many documents first is the one to run."""

_END = 1.0
_NO_SORT = 0.0001


@dataclass(slots=True)
class Trial:
    """A plan that is tried: its documents, what has been looked at for them, and how many have been found."""

    plan: Plan
    documents: Iterator[bytes]
    predicate: Predicate | None
    looks: Callable[[], int]
    """How many entries, or documents where there are none, have been looked at."""

    blocking: bool
    found: int = 0
    ended: bool = False

    def look(self, most: int) -> None:
        """Look at one document after the other until so much has been looked at."""
        while not self.ended and self.looks() < most:
            raw = next(self.documents, None)
            if raw is None:
                self.ended = True
            elif self.predicate is None or self.predicate.matches(raw):
                self.found += 1

    def score(self) -> float:
        """The higher, the better; a plan that has to make an order has given nothing before its end."""
        works = max(1, self.looks() + self.ended)
        if self.blocking:
            return self.found / (works + self.found) + _END if self.ended else 0.0
        return self.found / works + _END * self.ended + _NO_SORT


def best_of(plan: Plan, begin: Callable[[Plan], Trial], wanted: int) -> Plan:
    """The plan, or one of its `rejected` that does better in giving `wanted` documents; the others as `rejected`."""
    plans = (replace(plan, rejected=()), *plan.rejected)
    trials = [begin(each) for each in plans[:_MOST_PLANS]]
    for looks in range(1, _MOST_LOOKS):
        for trial in trials:
            trial.look(looks)
        if any(trial.ended or (trial.found >= wanted and not trial.blocking) for trial in trials):
            break
    best = max(trials, key=Trial.score)
    others = tuple(other for other in plans if other is not best.plan)
    return replace(best.plan, rejected=others, works=max(1, best.looks()))
