"""Bounds that a filter sets to the keys of an index, a shard key or one path.

Invariant: bounds may hold too much, never too little. Every document that satisfies the filter has at least one key
within the bounds under the given pattern. The filter itself is applied afterwards.

Keys follow `docstore.kernel.keys.pattern`: an array is represented by its elements, an empty one by undefined, a
missing field by null. So if there are arrays on the way to a field

* two elements may meet two conditions on one path: their ranges are not intersected, one of them is chosen. Only
  conditions in one `$elemMatch`, which one element meets, are intersected;
* two fields of a pattern whose paths share an array may get their values from two of its elements: only one of them is
  bounded, unless one `$elemMatch` on the shared array has conditions on both;
* a number in a path may mean a position or a name: such a field is not bounded;
* an expression on the path reads the array itself: it bounds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from docstore.bson.walk import (
    Value,
)
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.expr_bounds import Computed, computed_conditions
from docstore.query.filter.tree import (
    And,
    Comparison,
    DocumentTest,
    ElemMatchObject,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Mod,
    Nor,
    Not,
    Op,
    Or,
    RegexMatch,
    TypeIs,
)
from docstore.query.plan.intervals import EVERYTHING, Range, Ranges, compound, intersection, union
from docstore.query.plan.value_ranges import Condition, value_ranges
from docstore.query.value.long_lists import paced

Fields = Sequence[tuple[str, int]]
"""A key pattern: (dotted path, 1 or -1) in order."""

MAX_RANGES = 4096
"""Most ranges of one scan; beyond it neighbouring points are covered by one range."""


@dataclass(slots=True)
class PathConditions:
    """The conditions on one path that must all hold. `groups`: conditions of one `$elemMatch`, which one
    element meets.
    """

    single: list[Condition] = field(default_factory=list)
    groups: list[list[Filter]] = field(default_factory=list)


def conditions(tree: Filter) -> dict[str, PathConditions]:
    """Return the conditions by path that every matching document meets: the conjunction at the top of the filter."""
    by_path: dict[str, PathConditions] = {}
    for path, condition, together in _conjuncts(tree, ""):
        entry = by_path.setdefault(path, PathConditions())
        if together is None:
            entry.single.append(condition)
        else:
            entry.groups.append(together)
    return by_path


def _conjuncts(tree: Filter, prefix: str) -> Iterator[tuple[str, Condition, list[Filter] | None]]:
    if isinstance(tree, And):
        for child in paced(tree.children):
            yield from _conjuncts(child, prefix)
    elif isinstance(tree, ElemMatchValue):
        inner = tree.filter.children if isinstance(tree.filter, And) else (tree.filter,)
        yield prefix + tree.path, tree, [child for child in inner if _bounds_an_element(child)]
    elif isinstance(tree, ElemMatchObject):
        for path, condition, together in _conjuncts(tree.filter, ""):
            if not path.split(".", 1)[0].isdigit():
                yield f"{prefix}{tree.path}.{path}", condition, together
    elif isinstance(tree, Comparison | In | RegexMatch | Mod | TypeIs | Exists):
        yield prefix + tree.path, tree, None
    elif isinstance(tree, Not) and isinstance(tree.child, Comparison | In | Exists):
        yield prefix + tree.child.path, tree, None
    elif isinstance(tree, Not) and isinstance(tree.child, Not):
        yield from _conjuncts(tree.child.child, prefix)
    elif isinstance(tree, Nor):
        for child in paced(tree.children):
            yield from _conjuncts(Not(child), prefix)
    elif isinstance(tree, DocumentTest) and not prefix:
        for computed in computed_conditions(tree):
            yield computed.path, computed, None


def _bounds_an_element(condition: Filter) -> bool:
    """True if a condition inside `$elemMatch` bounds the element's own key. (A null element is never undefined.)"""
    return isinstance(condition, Comparison | In | RegexMatch | Mod | TypeIs)


def path_ranges(entry: PathConditions, multikey: bool) -> tuple[Ranges, tuple[Condition, ...]] | None:
    """Return (ranges, the conditions that every value in them satisfies) for one path under one pattern."""
    candidates: list[tuple[Ranges, tuple[Condition, ...]]] = []
    for condition in paced(entry.single):
        if multikey and _is_about_arrays(condition):
            continue
        bounded = value_ranges(condition)
        if bounded is not None:
            candidates.append((bounded[0], (condition,) if bounded[1] and not _is_negated(condition, multikey) else ()))
    for group in entry.groups:
        together = _together([candidate[0] for candidate in map(value_ranges, group) if candidate is not None])
        if together is not None:
            candidates.append((together, ()))
    if not candidates:
        return None
    if multikey:
        return min(candidates, key=lambda candidate: _width(candidate[0]))
    together = _together([ranges for ranges, _ in candidates])
    assert together is not None
    return together, tuple(condition for _, guarantees in candidates for condition in guarantees)


def _is_about_arrays(condition: Condition) -> bool:
    """True if an array can satisfy the condition although no element is in the condition's ranges."""
    if isinstance(condition, Computed):
        return True
    if not isinstance(condition, Not) or isinstance(condition.child, Exists):
        return False
    positive = value_ranges(condition.child)
    # An empty array is not null, but its key is that of undefined, which counts as null.
    return positive is None or not positive[1]


def _is_negated(condition: Condition, multikey: bool) -> bool:
    """True if an element that satisfies the condition does not prove that the array satisfies it."""
    return multikey and isinstance(condition, Not)


def _together(candidates: list[Ranges]) -> Ranges | None:
    if not candidates:
        return None
    while len(candidates) > 1:
        # Intersect pairwise: intersections of many sets grow long, and so each is read only a few times.
        intersections = candidates[::2]
        intersections[: len(candidates) // 2] = map(intersection, paced(candidates[::2]), candidates[1::2])
        candidates = intersections
    return candidates[0]


def _width(ranges: Ranges) -> tuple[int, int]:
    """Return a sort key by the values that a range set is likely to hold.

    The order is: none, few points, one bounded range, half-open ranges, many ranges.
    """
    if all(item.point for item in ranges):
        return 0, len(ranges)
    return 1 + sum(len(item.lo) == 1 or len(item.hi) == 1 for item in ranges), len(ranges)


def fixed_values(tree: Filter, *, collated: bool = True) -> list[tuple[str, Value]]:
    """Return (path, value) for every equality in the conjunction at the top of the filter, in its order.

    Without `collated`, equalities under a collation are omitted.
    """
    if isinstance(tree, And):
        return [equality for child in tree.children for equality in fixed_values(child, collated=collated)]
    if isinstance(tree, Comparison | In) and tree.collation is not None and not collated:
        return []
    if isinstance(tree, Comparison) and tree.op is Op.EQ:
        return [(tree.path, tree.value)]
    if isinstance(tree, In) and not tree.patterns and tree.values:
        first = tree.values[0]
        key = encode_key(first)
        if all(encode_key(value) == key for value in tree.values):
            return [(tree.path, first)]
    return []


def equalities(tree: Filter) -> dict[str, Value]:
    """Return the paths that the filter fixes to one value; the first of several equalities counts.

    An equality under a collation fixes none: other strings are equal to its value.
    """
    return dict(reversed(fixed_values(tree, collated=False)))


def key_ranges(tree: Filter, fields: Fields) -> list[tuple[bytes, bytes]] | None:
    """Return half-open ranges of encoded keys of a pattern without arrays, as of a shard key; None: unbounded.

    An empty list means that nothing can match. A disjunction is the union of its branches.
    """
    if isinstance(tree, Or):
        pairs: list[tuple[bytes, bytes]] = []
        for child in tree.children:
            ranges = key_ranges(child, fields)
            if ranges is None:
                return None
            pairs.extend(ranges)
        return [(item.lo, item.hi) for item in union(Range(lo, hi) for lo, hi in pairs)]
    bounded = field_bounds(tree, fields)
    if bounded:
        return compound([(item.ranges, item.direction) for item in bounded], MAX_RANGES)[0]
    for child in tree.children if isinstance(tree, And) else ():
        if isinstance(child, Or):
            ranges = key_ranges(child, fields)
            if ranges is not None:
                return ranges
    return None


@dataclass(frozen=True, slots=True)
class FieldBounds:
    """The bounds of one field of a pattern. `guaranteed`: the conditions that every key in the ranges satisfies."""

    path: str
    direction: int
    ranges: Ranges
    guaranteed: tuple[Condition, ...] = ()

    @property
    def bounded(self) -> bool:
        """True if the ranges exclude some keys."""
        return self.ranges != EVERYTHING

    @property
    def points(self) -> bool:
        """True if the ranges are a list of single values."""
        return bool(self.ranges) and all(item.point for item in self.ranges)

    @property
    def is_point(self) -> bool:
        """True if the ranges are one value."""
        return len(self.ranges) == 1 and self.ranges[0].point


def field_bounds(tree: Filter, fields: Fields, *, arrays: frozenset[str] = frozenset()) -> list[FieldBounds]:
    """Return the bounds of the fields of a pattern up to the last bounded one; none if the first is not bounded.

    `arrays`: the paths, each the beginning of a field's, at which documents have arrays.
    """
    everywhere = conditions(tree)
    scopes: dict[str, str] = {}
    bounds: list[FieldBounds] = []
    last = 0
    for path, direction in fields:
        bounded = _field_ranges(tree, everywhere, path, fields, bounds, arrays, scopes)
        if bounded is None:
            if not bounds:
                return []
            bounded = (EVERYTHING, ())
        else:
            last = len(bounds) + 1
        bounds.append(FieldBounds(path, direction, *bounded))
    return bounds[:last]


def _field_ranges(
    tree: Filter,
    everywhere: dict[str, PathConditions],
    path: str,
    fields: Fields,
    before: Sequence[FieldBounds],
    arrays: frozenset[str],
    scopes: dict[str, str],
) -> tuple[Ranges, tuple[Condition, ...]] | None:
    shared = arrays_on(path, arrays)
    if not shared:
        return _own(path, path_ranges(everywhere[path], False)) if path in everywhere else None
    if any(name.isdigit() for name in path.split(".")):
        return None
    by_path, relative = everywhere, path
    family = [item.path for item in before if item.bounded and not shared.isdisjoint(arrays_on(item.path, arrays))]
    if not family:
        scopes[first_name(path)] = _scope(tree, path, fields)
    scope = scopes[first_name(path)]
    if scope:
        by_path, relative = conditions(_scope_filter(tree, scope)), path[len(scope) + 1 :]
    if family and not (scope and path.startswith(scope + ".") and _differs_below(scope, path, family)):
        return None
    bounded = path_ranges(by_path[relative], True) if relative in by_path else None
    return _own(path, bounded) if by_path is everywhere else _own("", bounded)


def _own(
    path: str, bounded: tuple[Ranges, tuple[Condition, ...]] | None
) -> tuple[Ranges, tuple[Condition, ...]] | None:
    """Return the ranges with only those conditions that name this path: conditions in an `$elemMatch` name another."""
    if bounded is None:
        return None
    return bounded[0], tuple(condition for condition in bounded[1] if _path_of(condition) == path)


def _path_of(condition: Condition) -> str:
    inner = condition.child if isinstance(condition, Not) else condition
    return getattr(inner, "path", "")


def arrays_on(path: str, arrays: frozenset[str]) -> frozenset[str]:
    """Return the array paths on the way to `path` or at its end."""
    return frozenset(array_path for array_path in arrays if path == array_path or path.startswith(array_path + "."))


def first_name(path: str) -> str:
    """Return the top-level field name of the path."""
    return path.split(".", 1)[0]


def _differs_below(scope: str, path: str, family: Sequence[str]) -> bool:
    """True if the path differs from every path of the family in the name right below the array `scope`."""
    names = {first_name(member[len(scope) + 1 :]) for member in family}
    return first_name(path[len(scope) + 1 :]) not in names


def _scope(tree: Filter, path: str, fields: Fields) -> str:
    """Return the array whose `$elemMatch` bounds this field and a further one for one element; "" if there is none."""
    for scope, inner in _elem_matches(tree, ""):
        if not path.startswith(scope + "."):
            continue
        bounded = {name for name in conditions(inner) if not first_name(name).isdigit()}
        if path[len(scope) + 1 :] in bounded and any(
            other != path
            and other[len(scope) + 1 :] in bounded
            and other.startswith(scope + ".")
            and _differs_below(scope, other, [path])
            for other, _ in fields
        ):
            return scope
    return ""


def _scope_filter(tree: Filter, scope: str) -> Filter:
    return next(inner for path, inner in _elem_matches(tree, "") if path == scope)


def _elem_matches(tree: Filter, prefix: str) -> Iterator[tuple[str, Filter]]:
    if isinstance(tree, And):
        for child in tree.children:
            yield from _elem_matches(child, prefix)
    elif isinstance(tree, ElemMatchObject):
        yield prefix + tree.path, tree.filter
        yield from _elem_matches(tree.filter, f"{prefix}{tree.path}.")
