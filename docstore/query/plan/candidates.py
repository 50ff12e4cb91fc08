"""Candidate plans: those that single indexes offer for a filter and an order, with their scores.

An index whose first field is bounded is scored by how tightly its leading fields are bound. An index that yields the
order is preferred to a collection scan even without bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from docstore.errors import Code, CommandError
from docstore.query.filter.tree import And, Filter, Nor, Not, conjunction
from docstore.query.plan.access import CollectionScan, Eof, Merge, Plan, index_scan, wildcard_scan
from docstore.query.plan.bounds import FieldBounds, conditions, field_bounds
from docstore.query.plan.index_bounds import IndexInfo, asked_of, covers, usable_bounds
from docstore.query.plan.intervals import EVERYTHING, HIGHEST, LOWEST
from docstore.query.plan.ordering import exploded, sort_direction
from docstore.query.plan.value_ranges import Condition
from docstore.query.plan.wildcard import PATH_FIELD, WildcardBounds, WildcardPaths, wildcard_bounds
from docstore.query.sort import Sort
from docstore.query.value.collation import Collation
from docstore.query.value.long_lists import paced

Candidate = tuple[tuple[int, ...], Plan]
"""(score, plan): the higher the better."""


def best_plan(candidates: list[Candidate]) -> Plan | None:
    """Return the best plan, with the others as its rejected plans; None if there are none."""
    if not candidates:
        return None
    best, *rejected = sorted(candidates, key=lambda candidate: candidate[0], reverse=True)
    return replace(best[1], rejected=tuple(plan for _, plan in rejected)) if rejected else best[1]


def collection_scan(tree: Filter, sort: Sort, direction: int) -> Plan:
    """Return the plan that reads every document."""
    return Plan(CollectionScan(direction), None if tree == And(()) else tree, not sort.fields)


def index_plans(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort) -> list[Candidate]:
    """Return the scored plans that the indexes offer."""
    candidates: list[Candidate] = []
    bounded_paths = conditions(tree).keys() if indexes else frozenset()
    for index in indexes:
        if not _may_serve(index, bounded_paths, sort):
            continue
        coverage = covers(tree, index)
        if index.wildcard is not None:
            candidates += _wildcard_plans(tree, index, sort) if coverage.bounded else []
            continue
        bounds = usable_bounds(asked_of(tree, index.collation), index) if coverage.bounded else []
        if bounds or (coverage.unbounded and sort_direction(index, (), sort)):
            plan = _scan_plan(tree, index, bounds, sort)
            ordered = int(plan.provides_sort and bool(sort))
            candidates.append(((_tightness(bounds, index), ordered, -len(index.fields)), plan))
    return candidates


def _may_serve(index: IndexInfo, bounded_paths: Collection[str], sort: Sort) -> bool:
    """True if the index may have its first field bounded, or may yield the order; a cheap test by field names."""
    if index.wildcard is not None or index.geometry is not None:
        return True
    first = index.fields[0][0]
    return index.text is None and (first in bounded_paths or (bool(sort.fields) and sort.fields[0][0] == first))


def index_plan(tree: Filter, index: IndexInfo, sort: Sort) -> Plan:
    """Return the plan of one index, however poor. Without usable bounds it reads the whole index, and misses documents
    that the index does not hold. Error: NoQueryExecutionPlans for a wildcard index without bounds.
    """
    if index.wildcard is not None:
        plan = best_plan(_wildcard_plans(tree, index, sort)) if covers(tree, index).bounded else None
        if plan is None:
            raise CommandError(Code.NoQueryExecutionPlans, "a hinted wildcard index serves no condition of the filter")
        return plan
    bounds = usable_bounds(asked_of(tree, index.collation), index) if covers(tree, index).bounded else []
    return _scan_plan(tree, index, bounds, sort)


def _wildcard_plans(tree: Filter, index: IndexInfo, sort: Sort) -> list[Candidate]:
    assert index.wildcard is not None
    if len(index.fields) > 1:
        return _compound_wildcard_plans(tree, index, index.wildcard, sort)
    candidates: list[Candidate] = []
    for item in wildcard_bounds(asked_of(tree, index.collation), index.wildcard, multikey=index.multikey):
        field = FieldBounds(item.path, 1, item.ranges, item.guaranteed)
        residual_filter = residual(tree, [field], index.collation)
        by_path = tuple(path for path, _ in sort.fields) == (item.path,) and sort.collation == index.collation
        ordered = by_path and not index.multikey and not item.below
        direction = sort.fields[0][1] if ordered else 0
        if not item.ranges:
            return [((0,), Plan(Eof(), None, True))]
        scan = wildcard_scan(index, item, direction or 1, exact=residual_filter is None and not index.multikey)
        # An index of the path alone is smaller than one of all paths.
        candidates.append(
            ((_tightness([field], index) - 1, int(ordered), -2), Plan(scan, residual_filter, not sort or ordered))
        )
    return candidates


def _compound_wildcard_plans(tree: Filter, index: IndexInfo, paths: WildcardPaths, sort: Sort) -> list[Candidate]:
    """Return a plan for each path that the filter bounds, after the bounds of the leading fields, and one for these
    alone.
    """
    folded = asked_of(tree, index.collation)
    before = list(takewhile(lambda field: field[1] != 0, index.fields))
    # A compound wildcard index does not record at which paths documents have arrays.
    names = [path.split(".") for path, _ in before] if index.arrays else []
    arrays = frozenset(".".join(parts[: position + 1]) for parts in names for position in range(len(parts)))
    bounds = field_bounds(folded, before, arrays=arrays) if before else []
    if before and not bounds:
        return []
    candidates: list[Candidate] = []
    full_prefix = [*bounds, *(FieldBounds(path, direction, EVERYTHING) for path, direction in before[len(bounds) :])]
    alternatives = [
        ([*full_prefix, *item.fields()], item) for item in wildcard_bounds(folded, paths, multikey=bool(index.arrays))
    ]
    if bounds:
        alternatives.append((bounds, WildcardBounds("", EVERYTHING, below=True)))
    for fields, item in alternatives:
        if any(not field.ranges for field in fields):
            return [((0,), Plan(Eof(), None, True))]
        scan = replace(index_scan(index, fields, 1), wildcard=item)
        score = _tightness([field for field in fields if field.path != PATH_FIELD], index) - 1
        candidates.append(((score, 0, -len(index.fields) - 1), Plan(scan, tree, not sort)))
    return candidates


def _scan_plan(tree: Filter, index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> Plan:
    if any(not item.ranges for item in bounds):
        return Plan(Eof(), None, True)
    residual_filter = residual(tree, bounds, index.collation)
    direction = sort_direction(index, bounds, sort)
    if sort and not direction:
        merged = exploded(index, bounds, sort)
        if merged is not None:
            return Plan(
                Merge(tuple(scan for scan, _ in merged), tuple(fixed for _, fixed in merged)), residual_filter, True
            )
    scan = index_scan(index, bounds, direction or 1, exact=residual_filter is None and not index.multikey)
    return Plan(scan, residual_filter, not sort or direction != 0)


def residual(tree: Filter, bounds: Sequence[FieldBounds], collation: Collation | None) -> Filter | None:
    """Return the part of the filter that the bounds do not already guarantee; None if there is none."""
    guarantees = {condition for item in bounds for condition in item.guaranteed}
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    remaining = [child for child in paced(conjuncts) if not _is_met(asked_of(child, collation), guarantees)]
    return conjunction(remaining) if remaining else None


def _is_met(condition: Filter, guaranteed: set[Condition]) -> bool:
    if isinstance(condition, Nor):
        return all(_is_met(Not(child), guaranteed) for child in paced(condition.children))
    if isinstance(condition, Not) and isinstance(condition.child, Not):
        return _is_met(condition.child.child, guaranteed)
    return condition in guaranteed


def _tightness(bounds: Sequence[FieldBounds], index: IndexInfo) -> int:
    """Return a score that grows as the bounds admit fewer keys; fields after the first non-point count for little."""
    score = 0
    for item in bounds:
        if item.is_point:
            score += 100
            continue
        if item.points:
            return score + 80
        return score + _width(item) + sum(later.bounded for later in bounds[bounds.index(item) + 1 :])
    if index.unique and len(bounds) == len(index.fields):
        score += 1000
    return score


def _width(item: FieldBounds) -> int:
    """Return a score that grows as the ranges are likely to hold fewer values."""
    if not item.bounded:
        return 5
    if not item.ranges:
        return 100
    first, last = item.ranges[0], item.ranges[-1]
    if first.lo == LOWEST and last.hi == HIGHEST:
        return 10
    sizes = [len(end) for key_range in item.ranges for end in (key_range.lo, key_range.hi)]
    return 30 if 1 in sizes else 50
