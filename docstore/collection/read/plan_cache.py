"""The plan cache of a collection: plans by query shape (`docstore.query.plan.shapes`), and prepared scans by the form
of the filter (`docstore.kernel.match.form`).

- A cached plan is valid for the current indexes. The cache is cleared when an index is built, dropped or hidden, or
  becomes multikey at a further path.
- The winner of a plan trial is evicted, with its prepared scans, once a request examines ten times what the trial
  examined and has matched little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from docstore.bson.walk import Value
from docstore.collection.read.recent import Recent
from docstore.query.filter.tree import Filter
from docstore.query.plan.access import IndexScan, Plan
from docstore.query.plan.partial_filters import Decision
from docstore.query.plan.prepared_scan import PreparedCollection, PreparedScan, PreparedUnion
from docstore.query.plan.shapes import Prepared, Shape, prepared
from docstore.query.plan.special.prepared import PreparedSearch
from docstore.query.sort import Sort
from docstore.query.value.collation import Collation

if TYPE_CHECKING:
    from docstore.query.plan.index_bounds import IndexInfo

_PATIENCE = 10
_PASSED_OVER = 8
"""A scan that exceeded one step is not tried again for this number of requests."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A cached plan, the query it was chosen for, and the trial's works (0: it had no competitor)."""

    plan: Prepared
    tree: Filter
    sort: Sort
    works: int

    @property
    def patience(self) -> int:
        """Examined entries after which a request with few matches evicts the plan; 0: never, there is no other plan."""
        return patience_of(self.works)


def patience_of(works: int) -> int:
    """Return the eviction threshold of a plan that won its trial with `works` examined."""
    return _PATIENCE * works


Choice = tuple[object, ...]
"""The identity of a plan among candidates, independent of the values of the filter."""


def _choice_of(plan: Plan) -> Choice:
    access = plan.access
    if not isinstance(access, IndexScan):
        return (type(access),)
    bounded = tuple([item.path for item in access.bounds if item.bounded])
    return access.index.name, access.direction, bounded, access.wildcard and access.wildcard.path


class PlanCache:
    """The cached plans of one collection, evicting the least recently used.

    If a plan cannot be cached, because its values yield more than ranges, the choice among the candidates is cached.
    """

    __slots__ = ("_chosen", "_kept", "_long", "_scans")

    def __init__(self) -> None:
        self._chosen = Recent[Shape, tuple[Choice, int]]()
        self._long = Recent[ScanKey, int]()
        self._kept = Recent[Shape, Kept]()
        self._scans = Recent[ScanKey, PreparedForm]()

    def __len__(self) -> int:
        return len(self._kept.all())

    def of_several(self) -> list[Kept]:
        """Return the plans that won a trial against others, oldest first."""
        return [entry for entry in self._kept.all().values() if entry.works]

    def clear(self) -> None:
        """Clear the cache: the indexes have changed."""
        self._chosen = Recent()
        self._kept = Recent()
        self._scans = Recent()

    def kept(self, shape: Shape) -> Kept | None:
        """Return the cache entry for the shape."""
        return self._kept.get(shape)

    def bound(self, shape: Shape, tree: Filter) -> Plan | None:
        """Return the cached plan for the shape, bound to this filter."""
        entry = self._kept.get(shape)
        if entry is None:
            return None
        plan = entry.plan.bind(tree)
        return replace(plan, patience=entry.patience) if plan is not None and entry.works else plan

    def keep(self, shape: Shape, tree: Filter, sort: Sort, plan: Plan, indexes: Sequence[IndexInfo]) -> None:
        """Cache a plan chosen for the filter, if it serves other filters of the shape equally well.

        `indexes`: the candidates for plans.
        """
        prepared_plan = prepared(tree, sort, replace(plan, rejected=()) if plan.rejected else plan, indexes)
        if prepared_plan is not None and (plan.works or not plan.rejected):
            self._kept.put(shape, Kept(prepared_plan, tree, sort, plan.works))
        elif prepared_plan is None and plan.works and plan.rejected:
            self._chosen.put(shape, (_choice_of(plan), plan.works))

    def chosen(self, shape: Shape, plan: Plan) -> Plan | None:
        """Return the candidate that won the trial for the shape: `plan` or one it rejected. None if unknown."""
        entry = self._chosen.get(shape)
        if entry is None:
            return None
        choice, works = entry
        plans = (replace(plan, rejected=()), *plan.rejected)
        alike = [candidate for candidate in plans if _choice_of(candidate) == choice]
        if len(alike) != 1:
            return None
        rejected_plans = tuple([candidate for candidate in plans if candidate is not alike[0]])
        return replace(alike[0], rejected=rejected_plans, patience=patience_of(works))

    def forget(self, shape: Shape | None) -> None:
        """Evict the shape's plan: the next request plans anew."""
        if shape is not None:
            self._chosen.drop(shape)
            self._kept.drop(shape)
            self._scans = Recent()

    def scan(self, key: ScanKey) -> PreparedForm:
        """Return the prepared form. Errors: KeyError if none is cached."""
        return self._scans[key]

    def prepare(self, key: ScanKey, scan: PreparedForm) -> None:
        """Cache a prepared form, or None: this form cannot be prepared."""
        self._scans.put(key, scan)

    def takes_long(self, key: ScanKey) -> bool:
        """True if reading all documents of the scan in one step recently failed, so that trying again is not
        worthwhile.
        """
        remaining = self._long.get(key)
        if remaining is None:
            return False
        if remaining == 0:
            self._long.drop(key)
        else:
            self._long.put(key, remaining - 1)
        return remaining > 0

    def took_long(self, key: ScanKey) -> None:
        """Note that the documents of a scan exceeded one step."""
        self._long.put(key, _PASSED_OVER)

    def unprepare(self, key: ScanKey) -> None:
        """Evict the prepared form: the next request prepares it anew."""
        self._scans.drop(key)


ScanKey = tuple[bytes, bytes, bool, Value | None, Collation | None, tuple[bool, ...]]
"""(form of the filter, sort as in the request, count only, hint, collation, outcomes of the value tests of a
Decision).
"""

PreparedForm = PreparedScan | PreparedUnion | PreparedCollection | PreparedSearch | Decision | None
"""A scan for filters of one form; a decision by values that selects among scans; or None if no scan is prepared."""
