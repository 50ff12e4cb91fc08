"""The plan of a filter with a `$near`: its one access path, a near scan.

An index serves a `$near` at one of its fields if it measures distances in the same way. The filter must bound all
fields before that one. Of several, a `2d` index comes first for coordinate pairs, then the index with more bounded
fields.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.errors import Code, CommandError
from docstore.query.filter.tree import And, Filter, Near, conjunction
from docstore.query.find import Hint
from docstore.query.geo.cell_keys import PlaneKeys
from docstore.query.plan.access import NearScan, Plan
from docstore.query.plan.candidates import residual
from docstore.query.plan.hinted import named
from docstore.query.plan.index_bounds import IndexInfo, asked_of, bounds_beside, covers
from docstore.query.sort import Sort


def near_plan(tree: Filter, near: Near, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint | None) -> Plan:
    """Return the plan of a filter with `near` in its top conjunction. Error: NoQueryExecutionPlans."""
    candidates = indexes if hint is None else [named(indexes, hint)]
    scans = [scan for index in candidates for scan in _scans(tree, near, index)]
    if not scans:
        raise CommandError(Code.NoQueryExecutionPlans, "unable to find index for $geoNear query")
    best = max(scans, key=_preference)
    other_conjuncts = [child for child in tree.children if child is not near] if isinstance(tree, And) else []
    residual_filter = (
        residual(conjunction(other_conjuncts), best.bounds, best.index.collation) if other_conjuncts else None
    )
    return Plan(best, residual_filter, not sort)


def _scans(tree: Filter, near: Near, index: IndexInfo) -> list[NearScan]:
    serves = index.geometry is not None and index.geometry.serves(spherical=near.spherical, geojson=near.geojson)
    if not serves or not covers(tree, index).bounded:
        return []
    bounds = tuple(bounds_beside(asked_of(tree, index.collation), index))
    return [
        NearScan(index, near, bounds, position)
        for position, (path, direction) in enumerate(index.fields)
        if direction == 0 and path == near.path and all(item.bounded for item in bounds[:position])
    ]


def _preference(scan: NearScan) -> tuple[bool, int]:
    return isinstance(scan.index.geometry, PlaneKeys), sum(item.bounded for item in scan.bounds)


def located_path(indexes: Sequence[IndexInfo], namespace: str) -> str:
    """Return the field of the only `2d` index, or without any of the only `2dsphere` index. Error: IndexNotFound."""
    flat: list[str] = []
    spherical: list[str] = []
    for index in indexes:
        if index.geometry is not None:
            paths = flat if isinstance(index.geometry, PlaneKeys) else spherical
            paths.append(next(path for path, direction in index.fields if direction == 0))
    for kind, paths in (("2d", flat), ("2dsphere", spherical)):
        if len(paths) > 1:
            raise CommandError(
                Code.IndexNotFound,
                f"There is more than one {kind} index on {namespace}; unsure which to use for $geoNear",
            )
        if paths:
            return paths[0]
    raise CommandError(Code.IndexNotFound, "$geoNear requires a 2d or 2dsphere index, but none were found")
