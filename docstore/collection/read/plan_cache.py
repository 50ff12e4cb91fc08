"""The plans that a collection keeps, by the shape of what they are for (`docstore.query.plan.shapes`).

Always true: a kept plan is one for the indexes as they are. They are forgotten when indexes come, go or are hidden, and
not used after an index has met arrays at a new place. One that was the best of several is watched: who looks at ten
times as much with it as was looked at when it was chosen, and has found little, has it forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from docstore.query.filter.tree import Filter
from docstore.query.plan.access import Plan
from docstore.query.plan.shapes import Prepared, Shape, prepared
from docstore.query.sort import Sort

if TYPE_CHECKING:
    from docstore.collection.collection import Index

_MOST = 200
_PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan that is kept: what it was chosen for, what was looked at then (0: there was no other), where the indexes
    had met arrays.
    """

    plan: Prepared
    tree: Filter
    sort: Sort
    works: int
    places: tuple[int, ...]


class PlanCache:
    """The plans of one collection; the oldest go when there are too many."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Shape, Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of_several(self) -> list[Kept]:
        """Those that were the best of several, the oldest first."""
        return [kept for kept in self._kept.values() if kept.works]

    def clear(self) -> None:
        """The indexes are others from now on."""
        self._kept.clear()

    def bound(self, shape: Shape, tree: Filter, indexes: Sequence[Index]) -> Plan | None:
        """The plan that is kept for the shape, for this filter. `indexes`: those that plans may choose."""
        kept = self._kept.get(shape)
        if kept is None or kept.places != _places(indexes):
            return None
        plan = kept.plan.bind(tree)
        return replace(plan, patience=_PATIENCE * kept.works) if plan is not None and kept.works else plan

    def keep(self, shape: Shape, tree: Filter, sort: Sort, plan: Plan, indexes: Sequence[Index]) -> None:
        """The plan has been chosen for the filter; if others of its shape are served as well by it, keep it."""
        found = prepared(tree, replace(plan, rejected=()) if plan.rejected else plan, indexes)
        if found is None or (plan.rejected and not plan.works):
            return
        if len(self._kept) >= _MOST and shape not in self._kept:
            del self._kept[next(iter(self._kept))]
        self._kept[shape] = Kept(found, tree, sort, plan.works, _places(indexes))

    def forget(self, shape: Shape | None) -> None:
        """Have the next plan for the shape chosen anew."""
        if shape is not None:
            self._kept.pop(shape, None)


def _places(indexes: Sequence[Index]) -> tuple[int, ...]:
    return tuple([index.places for index in indexes])
