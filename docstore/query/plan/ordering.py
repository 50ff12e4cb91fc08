"""The order that an index scan yields, and the scans that yield the requested order after a merge.

If a scan fixes the leading fields to a few points, the entries of each point are in the order of the later fields. A
k-way merge of the points is in that order, too. A field with arrays provides an order only without bounds: within
bounds a document would sort by the element that lies in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from docstore.query.plan.access import Access, IndexScan, Merge, index_scan
from docstore.query.plan.bounds import FieldBounds, arrays_on
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.sort import Sort

MOST_MERGED = 200
"""Most scans that are merged into one order."""


def sort_direction(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> int:
    """Return 1 or -1 if scanning the index that way yields the order, 0 if not (or if there is no order)."""
    if not sort.fields or not _keeps_order(index, bounds, sort):
        return 0
    fixed = {item.path for item in bounds if item.is_point}
    sort_fields = [(path, direction) for path, direction in sort.fields if path not in fixed]
    own = [(path, direction) for path, direction in index.fields if path not in fixed]
    if not sort_fields:
        return 1
    if len(own) < len(sort_fields):
        return 0
    turned = sort_fields[0][1] * own[0][1]
    same = all(
        path == other and direction * turned == towards
        for (path, direction), (other, towards) in zip(sort_fields, own, strict=False)
    )
    return turned if same else 0


def exploded(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> list[tuple[IndexScan, int]] | None:
    """Return (scan of one combination of points of the leading fields, number of these fields) for all combinations.

    They are in the order of the whole scan, and each yields the requested order. None if the index cannot do that.
    """
    fixed = 0
    number = 1
    while fixed < len(bounds) and bounds[fixed].points:
        number *= len(bounds[fixed].ranges)
        fixed += 1
        if number > MOST_MERGED:
            return None
        if fixed == len(index.fields):
            return None
        split = [[replace(item, ranges=(key_range,)) for key_range in item.ranges] for item in bounds[:fixed]]
        first = [choices[0] for choices in split]
        direction = _merged_direction(index, [*first, *bounds[fixed:]], sort, fixed)
        if direction:
            turned = [choices[:: item.direction * direction] for choices, item in zip(split, bounds, strict=False)]
            return [(index_scan(index, [*points, *bounds[fixed:]], direction), fixed) for points in product(*turned)]
    return None


def ordered_scans(access: Access, sort: Sort) -> list[tuple[IndexScan, int]]:
    """Return the (scan, fixed fields) that can be merged: bounded scans ordered after their fixed fields."""
    if isinstance(access, Merge):
        return list(zip(access.branches, access.fixed, strict=True))
    if not isinstance(access, IndexScan) or access.wildcard is not None or not access.bounds:
        return []
    fixed = 0
    while True:
        if _merged_direction(access.index, access.bounds, sort, fixed) == access.direction:
            return [(access, fixed)]
        if fixed == len(access.bounds) or not access.bounds[fixed].is_point:
            return []
        fixed += 1


def _merged_direction(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort, fixed: int) -> int:
    """Return as `sort_direction` does, for an order that begins right after the fixed fields."""
    own = index.fields[fixed : fixed + len(sort.fields)]
    if [path for path, _ in own] != [path for path, _ in sort.fields] or not _keeps_order(index, bounds, sort):
        return 0
    turned = own[0][1] * sort.fields[0][1]
    same = all(towards * turned == direction for (_, towards), (_, direction) in zip(own, sort.fields, strict=True))
    return turned if same else 0


def _keeps_order(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> bool:
    """True if the bounds do not exclude the least and greatest array elements, by which the order sorts documents."""
    if sort.collation != index.collation:
        return False
    on_the_way = [arrays_on(path, index.arrays) for path, _ in sort.fields]
    return all(
        not item.bounded
        or all(array_paths.isdisjoint(arrays_on(item.path, index.arrays)) for array_paths in on_the_way)
        for item in bounds
    )
