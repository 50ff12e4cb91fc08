"""Bounds of a filter in an index by the kind of the index, and the test that it may serve the filter.

- A partial index serves filters that imply its own.
- A sparse index serves bounds that a missing field cannot meet.
- A hashed field serves equalities only.
- A wildcard index serves one path at a time.
- A geometry index serves regions, with bounds of the fields before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from docstore.bson.walk import ARRAY, INT64, NULL, UNDEFINED, Value
from docstore.kernel.keys.encoding import KEY_OF_NULL
from docstore.kernel.keys.hashing import hashed_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.filter.expr_bounds import Computed
from docstore.query.filter.implication import asks_for_presence, implies
from docstore.query.filter.tree import (
    Always,
    And,
    Comparison,
    DocumentTest,
    ElemMatchObject,
    ElemMatchValue,
    Filter,
    In,
    Nor,
    Not,
    Op,
    Or,
    RegexMatch,
    ValueTest,
)
from docstore.query.geo.cell_keys import GeoKeys, PlaneKeys
from docstore.query.plan.bounds import FieldBounds, arrays_on, conditions, field_bounds, path_ranges
from docstore.query.plan.intervals import EVERYTHING, Ranges, point, union
from docstore.query.plan.value_ranges import Condition
from docstore.query.plan.wildcard import WildcardPaths
from docstore.query.text.terms import TextKeys
from docstore.query.value.collation import Collation, holds_strings
from docstore.query.value.long_lists import paced


class IndexInfo(Protocol):
    """The properties of an index that the planner reads. Hashed, wildcard and geometry fields have the direction 0."""

    @property
    def name(self) -> str: ...

    @property
    def is_id(self) -> bool:
        """True for the `_id` index that every collection has."""

    @property
    def key_id(self) -> bytes: ...

    @property
    def fields(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def key_pattern(self) -> KeyPattern: ...

    @property
    def unique(self) -> bool: ...

    @property
    def sparse(self) -> bool: ...

    @property
    def multikey(self) -> bool: ...

    @property
    def arrays(self) -> frozenset[str]:
        """The paths at which documents have arrays; each is a field's path or the beginning of one."""

    @property
    def partial(self) -> Filter | None: ...

    @property
    def wildcard(self) -> WildcardPaths | None: ...

    @property
    def geometry(self) -> GeoKeys | None: ...

    @property
    def text(self) -> TextKeys | None: ...

    @property
    def collation(self) -> Collation | None: ...


@dataclass(frozen=True, slots=True)
class Coverage:
    """The scans that an index may serve: `bounded`, within the bounds of a filter; `unbounded`, also without bounds."""

    bounded: bool
    unbounded: bool


def covers(tree: Filter, index: IndexInfo) -> Coverage:
    """Return whether the index holds all documents that the filter can match, with bounds and without."""
    if index.wildcard is not None or index.geometry is not None or index.text is not None:
        return Coverage(index.partial is None or implies(tree, index.partial), False)
    if index.partial is not None:
        implied = implies(tree, index.partial)
        return Coverage(implied, implied)
    return Coverage(True, not index.sparse)


def asked_of(tree: Filter, collation: Collation | None) -> Filter:
    """Return the filter in terms of the keys of an index with that collation, which hold folded values.

    Comparisons of strings under other rules do not bound these keys.
    """
    if collation is None:
        return tree
    match tree:
        case And(children) | Or(children):
            return type(tree)(tuple(asked_of(child, collation) for child in paced(children)))
        case Not(child) | Nor((child,)):
            folded_child = asked_of(child, collation)
            return Always(True) if folded_child == Always(True) else Not(folded_child)
        case ElemMatchObject(path, inner) | ElemMatchValue(path, inner):
            return type(tree)(path, asked_of(inner, collation))
        case Comparison(path, op, value) if tree.collation == collation:
            return Comparison(path, op, collation.fold(value))
        case In(path, listed, patterns) if tree.collation == collation and not patterns:
            return In(path, tuple(map(collation.fold, listed)))
        case Comparison(value=value) if tree.collation is None and not holds_strings(value):
            return tree
        case In(values=listed, patterns=()) if tree.collation is None and not any(map(holds_strings, listed)):
            return tree
        case Comparison() | In() | RegexMatch() | Nor():
            return Always(True)
        case DocumentTest():
            return replace(tree, collation=collation)
        case _:
            return tree


def usable_bounds(tree: Filter, index: IndexInfo) -> list[FieldBounds]:
    """Return the bounds of the leading fields of an index that is not a wildcard index."""
    if index.text is not None:
        return []
    if index.geometry is not None:
        return _geometry_bounds(tree, index)
    if any(direction == 0 for _, direction in index.fields):
        bounds = _hashed_bounds(tree, index)
    else:
        bounds = field_bounds(tree, index.fields, arrays=index.arrays)
    if index.sparse and not any(asks_for_presence(tree, path) for path, _ in index.fields):
        for position, item in enumerate(bounds):
            holds_null = any(key_range.lo <= KEY_OF_NULL < key_range.hi for key_range in item.ranges)
            if holds_null or ("." in item.path and _is_met_by_arrays(tree, item.path)):
                return bounds[:position]
    return bounds


def _geometry_bounds(tree: Filter, index: IndexInfo) -> list[FieldBounds]:
    """Return the bounds in a geometry index; none unless the filter has a region at one of its fields."""
    bounds = bounds_beside(tree, index)
    located = False
    for position, (path, direction) in enumerate(index.fields):
        if direction == 0:
            ranges = _region_ranges(tree, path, index)
            if ranges is not None:
                bounds[position] = FieldBounds(path, 1, ranges)
                located = True
    return bounded_part(bounds) if located and bounds[0].bounded else []


def bounds_beside(tree: Filter, index: IndexInfo) -> list[FieldBounds]:
    """Return the bounds of all fields of a geometry index; fields of geometry stay open.

    Each other field has keys of its own, so the fields are bounded separately. A `2d` index keys an array as a whole.
    """
    bounds: list[FieldBounds] = []
    for path, direction in index.fields:
        bounded: list[FieldBounds] = []
        if direction and not (isinstance(index.geometry, PlaneKeys) and arrays_on(path, index.arrays)):
            bounded = field_bounds(tree, [(path, direction)], arrays=index.arrays)
        bounds += bounded or [FieldBounds(path, direction or 1, EVERYTHING)]
    return bounds


def bounded_part(bounds: list[FieldBounds]) -> list[FieldBounds]:
    """Return the bounds up to the last one that excludes keys."""
    last = max((count for count, item in enumerate(bounds, 1) if item.bounded), default=0)
    return bounds[:last]


def _region_ranges(tree: Filter, path: str, index: IndexInfo) -> Ranges | None:
    """Return the shortest list of ranges among the regions at the path in the top conjunction; None without a
    region.
    """
    assert index.geometry is not None
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    candidates: list[Ranges] = []
    for conjunct in conjuncts:
        if isinstance(conjunct, ValueTest) and conjunct.region is not None and conjunct.path == path:
            ranges = index.geometry.ranges(conjunct.region, single=not index.multikey)
            if ranges is not None:
                candidates.append(ranges)
    return min(candidates, key=len, default=None)


def _is_met_by_arrays(tree: Filter, path: str) -> bool:
    """True if an array on the way to the path may meet the filter although nothing is at the path.

    {a: [1]} is one of the documents without an a.b that is not null, and its a.b is an empty array in expressions.
    """
    entry = conditions(tree).get(path)
    return entry is not None and any(isinstance(condition, Not | Computed) for condition in entry.single)


def _hashed_bounds(tree: Filter, index: IndexInfo) -> list[FieldBounds]:
    by_path = conditions(tree)
    bounds: list[FieldBounds] = []
    for path, direction in index.fields:
        entry = by_path.get(path)
        if entry is None:
            break
        hashes = None if direction else hashes_of(entry.single)
        bounded = path_ranges(entry, False) if direction else None if hashes is None else (hashes, ())
        if bounded is None:
            break
        bounds.append(FieldBounds(path, direction or 1, *bounded))
    return bounds


def hashes_of(conditions: Sequence[Condition]) -> Ranges | None:
    """Return the hashes of the values that one of the conditions equals. Different values can share a hash, so these
    ranges are never exact.
    """
    for condition in conditions:
        if isinstance(condition, Comparison) and condition.op is Op.EQ:
            listed: Sequence[Value] = (condition.value,)
        elif isinstance(condition, In) and not condition.patterns:
            listed = condition.values
        else:
            continue
        if any(value[0] == ARRAY for value in listed):
            continue
        if any(value[0] in (NULL, UNDEFINED) for value in listed):
            listed = (*listed, (NULL, b""), (UNDEFINED, b""))
        hashes = {hashed_key(value) for value in listed}
        return union(point((INT64, key_hash.to_bytes(8, "little", signed=True))) for key_hash in hashes)
    return None
