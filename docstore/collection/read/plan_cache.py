"""The plans that a collection keeps, by the shape of what they are for (`docstore.query.plan.shapes`), and the scans
that are prepared from them, by the form of the filter.

Always true: a kept plan is one for the indexes as they are. They are forgotten when indexes come, go or are hidden, and
when one has met arrays at a new place. One that was the best of several is watched: who looks at ten times as much with
it as was looked at when it was chosen, and has found little, has it forgotten, with what was prepared from it.
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
"""So many times a scan is not tried that was too much for a step."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan that is kept: what it was chosen for, and what was looked at then (0: there was no other)."""

    plan: Prepared
    tree: Filter
    sort: Sort
    works: int

    @property
    def patience(self) -> int:
        """How much may be looked at in vain; 0: there is no other plan."""
        return patience_of(self.works)


def patience_of(works: int) -> int:
    """How much may be looked at in vain by a plan for which so much was looked at when it was found to be the best."""
    return _PATIENCE * works


Choice = tuple[object, ...]
"""What tells a plan of several from the others, whatever the values."""


def _choice_of(plan: Plan) -> Choice:
    access = plan.access
    if not isinstance(access, IndexScan):
        return (type(access),)
    bounded = tuple([item.path for item in access.bounds if item.bounded])
    return access.index.name, access.direction, bounded, access.wildcard and access.wildcard.path


class PlanCache:
    """The plans of one collection; those that were not asked for lately go when there are too many. Of a shape whose
    plan cannot be kept, because more than ranges is made of the values, the choice among several is.
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
        """Those that were the best of several, the oldest first."""
        return [kept for kept in self._kept.all().values() if kept.works]

    def clear(self) -> None:
        """The indexes are others from now on."""
        self._chosen = Recent()
        self._kept = Recent()
        self._scans = Recent()

    def kept(self, shape: Shape) -> Kept | None:
        """What is kept for the shape."""
        return self._kept.get(shape)

    def bound(self, shape: Shape, tree: Filter) -> Plan | None:
        """The plan that is kept for the shape, for this filter."""
        kept = self._kept.get(shape)
        if kept is None:
            return None
        plan = kept.plan.bind(tree)
        return replace(plan, patience=kept.patience) if plan is not None and kept.works else plan

    def keep(self, shape: Shape, tree: Filter, sort: Sort, plan: Plan, indexes: Sequence[IndexInfo]) -> None:
        """The plan has been chosen for the filter; if others of its shape are served as well by it, keep it.

        `indexes`: those that plans may choose.
        """
        found = prepared(tree, sort, replace(plan, rejected=()) if plan.rejected else plan, indexes)
        if found is not None and (plan.works or not plan.rejected):
            self._kept.put(shape, Kept(found, tree, sort, plan.works))
        elif found is None and plan.works and plan.rejected:
            self._chosen.put(shape, (_choice_of(plan), plan.works))

    def chosen(self, shape: Shape, plan: Plan) -> Plan | None:
        """The one of a plan and those rejected for it that was the best for the shape; None where that is not known."""
        known = self._chosen.get(shape)
        if known is None:
            return None
        choice, works = known
        plans = (replace(plan, rejected=()), *plan.rejected)
        alike = [each for each in plans if _choice_of(each) == choice]
        if len(alike) != 1:
            return None
        others = tuple([each for each in plans if each is not alike[0]])
        return replace(alike[0], rejected=others, patience=patience_of(works))

    def forget(self, shape: Shape | None) -> None:
        """Have the next plan for the shape chosen anew."""
        if shape is not None:
            self._chosen.drop(shape)
            self._kept.drop(shape)
            self._scans = Recent()

    def scan(self, key: ScanKey) -> PreparedForm:
        """What is prepared. Errors: KeyError where that is not known."""
        return self._scans[key]

    def prepare(self, key: ScanKey, scan: PreparedForm) -> None:
        """Keep what is prepared, or that nothing can be."""
        self._scans.put(key, scan)

    def takes_long(self, key: ScanKey) -> bool:
        """Whether it is not worth trying to find all documents of a scan in one step: it was too much not long ago."""
        left = self._long.get(key)
        if left is None:
            return False
        if left == 0:
            self._long.drop(key)
        else:
            self._long.put(key, left - 1)
        return left > 0

    def took_long(self, key: ScanKey) -> None:
        """All documents of a scan were more than a step finds."""
        self._long.put(key, _PASSED_OVER)

    def unprepare(self, key: ScanKey) -> None:
        """Have the scan prepared anew."""
        self._scans.drop(key)


ScanKey = tuple[bytes, bytes, bool, Value | None, Collation | None, tuple[bool, ...]]
"""(the form of the filter, the order as it stands in the request, whether documents are only counted, the hint, the
collation, what the values decide).
"""

PreparedForm = PreparedScan | PreparedUnion | PreparedCollection | PreparedSearch | Decision | None
"""The scan for filters of a form; what their values decide before it, where they do; or that there is none."""
