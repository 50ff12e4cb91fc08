"""What a filter says about the keys of an index, a shard key or one path.

The rule for all of it: bounds may hold too much, never too little. Every document that satisfies the filter has,
under the given pattern, at least one key within the bounds; the filter itself is applied afterwards.

Keys follow `docstore.bson.key_pattern`: an array is represented by its elements, an empty one by undefined, a missing
field by null. So with arrays (`multikey`)

* two conditions on one path may be met by two elements: their ranges are not intersected, one of them is chosen. Only
  what one `$elemMatch` says of one element is intersected;
* two fields of a pattern whose paths share their first name may get their values from two elements: only one of them is
  bounded, unless one `$elemMatch` on the shared array speaks of both;
* a number in a path may mean a position or a name: such a field is not bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from docstore.bson.keys import KEY_OF_NULL, KEY_OF_UNDEFINED, encode_key
from docstore.bson.order import type_class
from docstore.bson.walk import (
    ARRAY,
    DOUBLE,
    MAX_KEY,
    MIN_KEY,
    NULL,
    REGEX,
    STRING,
    UNDEFINED,
    Value,
    values,
)
from docstore.query.intervals import EVERYTHING, Range, Ranges, behind, compound, intersection, point, union
from docstore.query.regex import literal_prefix
from docstore.query.tree import (
    And,
    Comparison,
    ElemMatchObject,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Mod,
    Not,
    Op,
    Or,
    RegexMatch,
    TypeIs,
)
from docstore.query.values import string_value

Fields = Sequence[tuple[str, int]]
"""A key pattern: (dotted path, 1 or -1) in order."""

MAX_RANGES = 4096
"""Most ranges one scan is made of; beyond it neighbouring points are covered by one range."""

NUMBER_CLASS = type_class(DOUBLE)
NUMBERS_WITHOUT_NAN = Range(b"\x2c", b"\x40")
_NUMBERS = Range(b"\x28", b"\x40")
_CLASS_WIDTH = 8

NULL_RANGES: Ranges = (
    Range(KEY_OF_UNDEFINED, behind(KEY_OF_UNDEFINED), True),
    Range(KEY_OF_NULL, behind(KEY_OF_NULL), True),
)
"""Where a missing or null field can be: undefined stands for an empty array on the way."""


def class_range(code: int) -> Range:
    """All values that compare with values of this type."""
    start = type_class(code)
    if start == NUMBER_CLASS:
        return _NUMBERS
    if code in (MIN_KEY, MAX_KEY):
        return Range(bytes([start]), bytes([start + 1]), True)
    return Range(bytes([start]), bytes([start + _CLASS_WIDTH]))


def value_ranges(condition: Filter) -> tuple[Ranges, bool] | None:
    """(ranges, exact) of a condition on one path, or None when it bounds nothing.

    `exact`: without arrays in the way, a value satisfies the condition exactly when its key is in the ranges. Keys are
    those of bytes: a comparison under a collation bounds nothing.
    """
    if isinstance(condition, Comparison):
        return None if condition.collation is not None else _comparison(condition.op, condition.value)
    if isinstance(condition, In):
        return None if condition.collation is not None else _in(condition)
    if isinstance(condition, RegexMatch):
        return _regex(condition), False
    if isinstance(condition, Mod):
        return (_NUMBERS,), False
    if isinstance(condition, TypeIs):
        return _types(condition.codes)
    if isinstance(condition, Not) and isinstance(condition.child, Exists):
        return NULL_RANGES, False
    return None


def _comparison(op: Op, value: Value) -> tuple[Ranges, bool] | None:
    code = value[0]
    if op is Op.EQ:
        return _equality(value)
    if code in (ARRAY, MIN_KEY, MAX_KEY):
        return None
    if code in (NULL, UNDEFINED):
        return (NULL_RANGES, False) if op in (Op.LTE, Op.GTE) else ((), False)
    whole = class_range(code)
    here = point(value)
    if whole is _NUMBERS:
        if here.lo == whole.lo:
            return ((here,), True) if op in (Op.LTE, Op.GTE) else ((), True)
        whole = NUMBERS_WITHOUT_NAN
    bounded = {
        Op.LT: Range(whole.lo, here.lo),
        Op.LTE: Range(whole.lo, here.hi),
        Op.GT: Range(here.hi, whole.hi),
        Op.GTE: Range(here.lo, whole.hi),
    }[op]
    return union([bounded]), True


def _equality(value: Value) -> tuple[Ranges, bool]:
    if value[0] in (NULL, UNDEFINED):
        return NULL_RANGES, False
    if value[0] == ARRAY:
        members = values(value[1])
        first = point(members[0]) if members else NULL_RANGES[0]
        return union([first, point(value)]), False
    return (point(value),), True


def _in(condition: In) -> tuple[Ranges, bool]:
    found: list[Range] = []
    exact = not condition.patterns
    for value in condition.values:
        ranges, same = _equality(value)
        found.extend(ranges)
        exact = exact and same
    for pattern in condition.patterns:
        found.extend(_regex(pattern))
    return union(found), exact


def _regex(condition: RegexMatch) -> Ranges:
    """Strings, by their literal beginning if they have one; and regexes, which match by being the same."""
    prefix, _ = literal_prefix(condition.pattern, condition.options)
    strings = class_range(STRING)
    if prefix:
        start = encode_key(string_value(prefix))[:-1]
        strings = Range(start, behind(start))
    return union([strings, class_range(REGEX)])


def _types(codes: frozenset[int]) -> tuple[Ranges, bool] | None:
    if ARRAY in codes:
        return None
    return union(class_range(code) for code in codes), False


@dataclass(slots=True)
class PathConditions:
    """The conditions on one path that must all hold. `groups`: those under one `$elemMatch` speak of one element."""

    single: list[Filter] = field(default_factory=list)
    groups: list[list[Filter]] = field(default_factory=list)


def conditions(tree: Filter) -> dict[str, PathConditions]:
    """The conditions by path that every matching document meets: the conjunction at the top of the filter."""
    found: dict[str, PathConditions] = {}
    for path, condition, together in _conjuncts(tree, ""):
        entry = found.setdefault(path, PathConditions())
        if together is None:
            entry.single.append(condition)
        else:
            entry.groups.append(together)
    return found


def _conjuncts(tree: Filter, prefix: str) -> Iterator[tuple[str, Filter, list[Filter] | None]]:
    if isinstance(tree, And):
        for child in tree.children:
            yield from _conjuncts(child, prefix)
    elif isinstance(tree, ElemMatchValue):
        inner = tree.filter.children if isinstance(tree.filter, And) else (tree.filter,)
        yield prefix + tree.path, tree, [child for child in inner if _bounds_an_element(child)]
    elif isinstance(tree, ElemMatchObject):
        for path, condition, together in _conjuncts(tree.filter, ""):
            if not path.split(".", 1)[0].isdigit():
                yield f"{prefix}{tree.path}.{path}", condition, together
    elif isinstance(tree, Comparison | In | RegexMatch | Mod | TypeIs):
        yield prefix + tree.path, tree, None
    elif isinstance(tree, Not) and isinstance(tree.child, Exists):
        yield prefix + tree.child.path, tree, None


def _bounds_an_element(condition: Filter) -> bool:
    """Whether a condition inside `$elemMatch` says something about the element's own key (a null one is never
    undefined).
    """
    return isinstance(condition, Comparison | In | RegexMatch | Mod | TypeIs)


def path_ranges(entry: PathConditions, multikey: bool) -> tuple[Ranges, bool] | None:
    """(ranges, exact) for one path under one pattern."""
    candidates: list[tuple[Ranges, bool]] = []
    for condition in entry.single:
        bounded = value_ranges(condition)
        if bounded is not None:
            candidates.append(bounded)
    skipped = len(candidates) < len(entry.single)
    for group in entry.groups:
        bounded = _together([found for found in map(value_ranges, group) if found is not None])
        if bounded is not None:
            candidates.append((bounded[0], False))
    if not candidates:
        return None
    if multikey:
        best = min(candidates, key=lambda found: _width(found[0]))
        # With one condition there is one element that meets it, and no other need be asked for.
        return best[0], best[1] and len(entry.single) == 1 and not entry.groups
    together = _together(candidates)
    assert together is not None
    return together[0], together[1] and not skipped


def _together(candidates: list[tuple[Ranges, bool]]) -> tuple[Ranges, bool] | None:
    if not candidates:
        return None
    ranges, exact = EVERYTHING, True
    for found, same in candidates:
        ranges = intersection(ranges, found)
        exact = exact and same
    return ranges, exact


def _width(ranges: Ranges) -> tuple[int, int]:
    """Orders range sets by how much they are likely to hold: none, few points, one bounded range, half-open ones,
    many.
    """
    if all(item.point for item in ranges):
        return 0, len(ranges)
    return 1 + sum(len(item.lo) == 1 or len(item.hi) == 1 for item in ranges), len(ranges)


def fixed_values(tree: Filter, *, collated: bool = True) -> list[tuple[str, Value]]:
    """(path, value) for every equality in the conjunction at the top of the filter, in its order.

    Without `collated` those under a collation are left out.
    """
    if isinstance(tree, And):
        return [found for child in tree.children for found in fixed_values(child, collated=collated)]
    if isinstance(tree, Comparison | In) and tree.collation is not None and not collated:
        return []
    if isinstance(tree, Comparison) and tree.op is Op.EQ:
        return [(tree.path, tree.value)]
    if isinstance(tree, In) and not tree.patterns and len({encode_key(value) for value in tree.values}) == 1:
        return [(tree.path, tree.values[0])]
    return []


def equalities(tree: Filter) -> dict[str, Value]:
    """The paths that the filter fixes to one value; the first equality counts where there are several.

    An equality under a collation fixes none: others are equal to its value.
    """
    return dict(reversed(fixed_values(tree, collated=False)))


def key_ranges(tree: Filter, fields: Fields) -> list[tuple[bytes, bytes]] | None:
    """Half-open ranges of encoded keys of a pattern without arrays, as of a shard key; None: unbounded.

    An empty list says that nothing can match. A disjunction is the union of its branches.
    """
    if isinstance(tree, Or):
        found: list[tuple[bytes, bytes]] = []
        for child in tree.children:
            ranges = key_ranges(child, fields)
            if ranges is None:
                return None
            found.extend(ranges)
        return [(item.lo, item.hi) for item in union(Range(lo, hi) for lo, hi in found)]
    bounded = field_bounds(tree, fields, multikey=False)
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
    """What the filter says of one field of a pattern; `exact` as in `value_ranges`."""

    path: str
    direction: int
    ranges: Ranges
    exact: bool


def field_bounds(tree: Filter, fields: Fields, *, multikey: bool) -> list[FieldBounds]:
    """Bounds of the leading fields of a pattern, up to the first field that the filter does not bound."""
    everywhere = conditions(tree)
    scopes: dict[str, str] = {}
    found: list[FieldBounds] = []
    for path, direction in fields:
        by_path, relative = everywhere, path
        if multikey:
            if any(name.isdigit() for name in path.split(".")):
                break
            family = [earlier.path for earlier in found if _first_name(earlier.path) == _first_name(path)]
            if not family:
                scopes[_first_name(path)] = _scope(tree, path, fields)
            scope = scopes[_first_name(path)]
            if scope:
                by_path, relative = conditions(_scope_filter(tree, scope)), path[len(scope) + 1 :]
            if family and not (scope and path.startswith(scope + ".") and _apart(scope, path, family)):
                break
        bounded = path_ranges(by_path[relative], multikey) if relative in by_path else None
        if bounded is None:
            break
        # Under a scope other conditions on the path may stand outside of it.
        found.append(FieldBounds(path, direction, bounded[0], bounded[1] and by_path is everywhere))
    return found


def _first_name(path: str) -> str:
    return path.split(".", 1)[0]


def _apart(scope: str, path: str, family: Sequence[str]) -> bool:
    """Whether the path parts from all of the family right below the array that the scope names."""
    names = {_first_name(member[len(scope) + 1 :]) for member in family}
    return _first_name(path[len(scope) + 1 :]) not in names


def _scope(tree: Filter, path: str, fields: Fields) -> str:
    """The array whose `$elemMatch` bounds this field and a further one for one element; "" when there is none."""
    for scope, inner in _elem_matches(tree, ""):
        if not path.startswith(scope + "."):
            continue
        bounded = {name for name in conditions(inner) if not _first_name(name).isdigit()}
        if path[len(scope) + 1 :] in bounded and any(
            other != path
            and other[len(scope) + 1 :] in bounded
            and other.startswith(scope + ".")
            and _apart(scope, other, [path])
            for other, _ in fields
        ):
            return scope
    return ""


def _scope_filter(tree: Filter, scope: str) -> Filter:
    return next(inner for found, inner in _elem_matches(tree, "") if found == scope)


def _elem_matches(tree: Filter, prefix: str) -> Iterator[tuple[str, Filter]]:
    if isinstance(tree, And):
        for child in tree.children:
            yield from _elem_matches(child, prefix)
    elif isinstance(tree, ElemMatchObject):
        yield prefix + tree.path, tree.filter
        yield from _elem_matches(tree.filter, f"{prefix}{tree.path}.")
