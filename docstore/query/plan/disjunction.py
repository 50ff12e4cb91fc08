"""Plans of a disjunction: the union of its branches' documents, each branch through an index of its own.

If each branch has an index with the requested order, the union is a merge in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from docstore.query.filter.tree import And, Filter, Or
from docstore.query.plan.access import (
    CollectionScan,
    Eof,
    IdLookup,
    IndexScan,
    Merge,
    NearScan,
    Plan,
    Union,
    index_scan,
)
from docstore.query.plan.bounds import FieldBounds
from docstore.query.plan.candidates import Candidate, index_plans
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import union
from docstore.query.plan.ordering import MOST_MERGED, ordered_scans
from docstore.query.sort import Sort
from docstore.query.value.long_lists import paced

_ByForm = dict[tuple[int, ...], list[tuple[IndexScan, int]]]
"""(scan, number of leading fields it fixes) by the direction of the scan and those of the order's fields."""


def union_plans(
    tree: Filter, indexes: Sequence[IndexInfo], sort: Sort, choose: Callable[[Filter, Sequence[IndexInfo]], Plan]
) -> list[Candidate]:
    """Return the plans that unite the documents of a disjunction's branches. `choose` plans a branch in any order."""
    candidates: list[Candidate] = []
    if isinstance(tree, And):
        for child in tree.children:
            if isinstance(child, Or):
                # The caller chooses between these and the indexes of the conjunction.
                united = _united(child, indexes, sort, choose)
                candidates += [((0, *score[1:]), replace(plan, residual=tree)) for score, plan in united]
        return candidates[:1]
    return _united(tree, indexes, sort, choose) if isinstance(tree, Or) else []


def _united(
    tree: Or, indexes: Sequence[IndexInfo], sort: Sort, choose: Callable[[Filter, Sequence[IndexInfo]], Plan]
) -> list[Candidate]:
    if sort:
        merged = _merged_union(tree, indexes, sort)
        if merged is not None:
            return [((1, 1, 0), merged)]
    branches: list[IndexScan | IdLookup | Eof] = []
    exact = True
    for child in paced(tree.children):
        plan = choose(child, indexes)
        if isinstance(plan.access, CollectionScan | Merge | NearScan):
            return []
        branches.extend(plan.access.branches if isinstance(plan.access, Union) else [plan.access])
        exact = exact and plan.residual is None
    access = _one_scan(branches) if exact else None
    return [((1, 0, 0), Plan(access or Union(tuple(branches)), None if exact else tree, not sort))]


def _merged_union(tree: Or, indexes: Sequence[IndexInfo], sort: Sort) -> Plan | None:
    """Return the merge of a disjunction's branches in the requested order, if each has an index with it; else None."""
    exact = True
    by_form: _ByForm | None = None
    for child in paced(tree.children):
        choices, is_exact = _by_form(child, indexes, sort)
        exact = exact and is_exact
        if by_form is None:
            by_form = choices
        else:
            by_form = {form: [*by_form[form], *choices[form]] for form in by_form if form in choices}
    chosen = next(iter(by_form.values()), None) if by_form else None
    if chosen is None or len(chosen) > MOST_MERGED:
        return None
    access = Merge(tuple(scan for scan, _ in chosen), tuple(fixed for _, fixed in chosen))
    return Plan(access, None if exact else tree, True)


def _by_form(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort) -> tuple[_ByForm, bool]:
    """Return (the mergeable scans, whether all of them satisfy the whole filter) of one branch."""
    choices: _ByForm = {}
    exact_by_form: dict[tuple[int, ...], bool] = {}
    for _, plan in index_plans(tree, indexes, sort):
        scans = ordered_scans(plan.access, sort)
        if scans:
            scan, fixed = scans[0]
            form = (scan.direction, *(towards for _, towards in scan.index.fields[fixed:][: len(sort.fields)]))
            if form not in choices or (plan.residual is None and not exact_by_form[form]):
                choices[form], exact_by_form[form] = scans, plan.residual is None
    return choices, all(exact_by_form.values())


def _one_scan(branches: Sequence[IndexScan | IdLookup | Eof]) -> IndexScan | None:
    """Return one scan in place of several, if all bound only the first field of one index; else None."""
    scans = [branch for branch in branches if isinstance(branch, IndexScan)]
    if len(scans) < len(branches) or len({scan.index.name for scan in scans}) > 1:
        return None
    if not scans or any(len(scan.bounds) != 1 or scan.wildcard is not None for scan in scans):
        return None
    first = scans[0]
    ranges = union(key_range for scan in scans for key_range in scan.bounds[0].ranges)
    return replace(index_scan(first.index, [FieldBounds(*first.index.fields[0], ranges)], 1), exact=first.exact)
