"""Plan cache entries for one query shape: the same conditions on the same paths, with other values.

An application sends few shapes. The planner's result for one (index, conditions on its fields, direction, residual)
holds for all values that it treats alike. Only the ranges of keys are computed from the values.

Invariant: `Prepared.bind` gives the plan that `choose` gives for the filter, or one of its rejected plans. It assumes
unchanged indexes and conditions that do not contradict each other. Hence:

- Values that may differ are those of comparisons with one value of a type that has ranges of its own.
- So may the values of a list of these, if no order is requested or the list is one of `_id` alone.
- So may regular expressions; the shape records whether strings begin with a literal text.
- Some other conditions are constants of the shape, and so is the collation of string comparisons.
- Disjunctions of all these bound nothing and stay in the residual.
- An `$elemMatch` on a field may bound a multikey index; all of it stays in the residual.
- The index is one of values, under any collation. Other kinds may exist if they serve no filter of the shape.
- The shape records which partial indexes may serve a filter; its values decide that.
- The best of several plans depends on the data: `docstore.collection.read.plan_cache`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from struct import unpack
from typing import TypeGuard

from docstore.bson.walk import (
    BINARY,
    BOOL,
    DATE,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    OBJECT_ID,
    STRING,
    TIMESTAMP,
    Value,
)
from docstore.query.filter.implication import implies
from docstore.query.filter.regex import literal_prefix
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
    Size,
    TypeIs,
    ValueTest,
    conjunction,
)
from docstore.query.limits import (
    MAX_CACHED_CONDITIONS,
    MAX_CACHED_LIST_VALUES,
    MAX_CACHED_VALUE_BYTES,
    MAX_CONSTANT_LIST_VALUES,
)
from docstore.query.plan.access import IndexScan, Plan, index_scan, wildcard_scan
from docstore.query.plan.bounds import FieldBounds, arrays_on
from docstore.query.plan.index_bounds import IndexInfo, asked_of, hashes_of
from docstore.query.plan.intervals import EVERYTHING, Ranges, intersection, point
from docstore.query.plan.value_ranges import value_ranges
from docstore.query.plan.wildcard import WildcardBounds, has_entry
from docstore.query.sort import Sort
from docstore.query.value.collation import Collation, holds_strings

Shape = tuple[object, ...]
"""The part of a filter and its indexes that must be equal for a plan to be reused; hashable."""

_KINDS = {INT32: 1, INT64: 1, DOUBLE: 1, STRING: 2, BINARY: 5, OBJECT_ID: 7, BOOL: 8, DATE: 9, TIMESTAMP: 17}
"""The types whose values have ranges of their own; types that compare with each other share a number."""


def shape_of(tree: Filter, sort: Sort, indexes: Sequence[IndexInfo]) -> Shape | None:
    """Return the shape of a filter and an order, given these indexes; None if its plans are not cached."""
    if sort.natural or sort.measures or len(conjuncts(tree)) > MAX_CACHED_CONDITIONS:
        return None
    shape: list[object] = [sort.fields, sort.collation]
    # If `_id` is in a compound index too, a few of its scans could be merged into the order.
    ids_apart = all(index.is_id or all(path != "_id" for path, _ in index.fields) for index in indexes)
    for condition in conjuncts(tree):
        if (
            isinstance(condition, Comparison)
            and condition.op is Op.EQ
            and condition.path == "_id"
            and has_free_value(condition)
        ):
            return None
        if isinstance(condition, Or):
            branches = [_part_of_shape(child, lists=not sort.fields) for child in condition.children]
            if len(branches) > MAX_CACHED_CONDITIONS or None in branches:
                return None
            shape += ("or", tuple(branches))
            continue
        is_list_of_ids = isinstance(condition, In) and condition.path == "_id" and ids_apart
        part = _part_of_shape(condition, lists=is_list_of_ids or not sort.fields)
        if part is None:
            return None
        shape += part
    shape += [_implied(tree, index.partial) for index in indexes if index.partial is not None]
    return tuple(shape)


def _implied(tree: Filter, partial: Filter) -> tuple[bool, ...]:
    """Return whether the filter, and each branch of its disjunctions, implies that of a partial index."""
    branches = [child for node in conjuncts(tree) if isinstance(node, Or) for child in node.children]
    return tuple([implies(node, partial) for node in (tree, *branches)])


def _part_of_shape(tree: Filter, *, lists: bool, nested: bool = False) -> Shape | None:
    """Return the shape of conditions without disjunctions; None if they have none. `lists`: values of lists are free,
    not constants; `nested`: the conditions are in an `$elemMatch`.
    """
    shape: list[object] = []
    for condition in conjuncts(tree):
        if has_free_value(condition):
            assert isinstance(condition, Comparison), "of all conditions only these have one"
            shape += (
                condition.path,
                condition.op is Op.EQ or condition.op.value,
                _KINDS[condition.value[0]],
                condition.collation,
            )
        elif has_free_list(condition) and lists:
            # An index under a collation serves strings under the same collation only.
            shape += (condition.path, "in", any(value[0] == STRING for value in condition.values), condition.collation)
        elif has_free_patterns(condition):
            shape += (condition.path, "in", "regex")
        elif has_free_pattern(condition):
            prefix, is_whole = literal_prefix(condition.pattern, condition.options)
            shape += (condition.path, "regex", bool(prefix), is_whole)
        elif isinstance(condition, ElemMatchObject | ElemMatchValue) and not nested:
            inner = _part_of_shape(condition.filter, lists=lists, nested=True)
            if inner is None:
                return None
            shape += (condition.path, type(condition), inner)
        elif isinstance(condition, DocumentTest) and _is_constant(condition):
            # Its test is compiled anew for each request.
            shape += (condition.name, condition.argument)
        elif isinstance(condition, ValueTest) and condition.region is not None and not nested:
            # Regions rarely recur, but the same indexes can serve them.
            shape += (condition.path, condition.name, type(condition.region))
        elif _is_constant(condition):
            shape.append(condition)
        else:
            return None
    return tuple(shape)


def has_free_value(condition: Filter) -> bool:
    """True if the condition is a comparison whose value is not part of the shape."""
    return isinstance(condition, Comparison) and _is_free(condition.value)


def _is_free(value: Value) -> bool:
    """True if the value's type has ranges of its own, and the value is short enough for a cached plan."""
    return value[0] in _KINDS and len(value[1]) <= MAX_CACHED_VALUE_BYTES and not _is_nan(value)


def has_free_list(condition: Filter) -> TypeGuard[In]:
    """True if the condition is an `$in` whose values are not part of the shape of a filter without an order."""
    if not isinstance(condition, In) or condition.patterns:
        return False
    listed = condition.values
    return 1 <= len(listed) <= MAX_CACHED_LIST_VALUES and all(map(_is_free, listed))


def has_free_pattern(condition: Filter) -> TypeGuard[RegexMatch]:
    """True if the condition is a regular expression that is not part of the shape."""
    return isinstance(condition, RegexMatch) and len(condition.pattern) <= MAX_CACHED_VALUE_BYTES


def has_free_patterns(condition: Filter) -> TypeGuard[In]:
    """True if the condition is an `$in` with regular expressions, none of which has a literal prefix. Any such list
    reads all strings.
    """
    if not isinstance(condition, In) or condition.collation is not None or not condition.patterns:
        return False
    if len(condition.patterns) + len(condition.values) > MAX_CONSTANT_LIST_VALUES or not all(
        map(_is_free, condition.values)
    ):
        return False
    return all(
        len(pattern.pattern) <= MAX_CACHED_VALUE_BYTES
        and literal_prefix(pattern.pattern, pattern.options) == ("", False)
        for pattern in condition.patterns
    )


def lookup(tree: Filter, id_index: IndexInfo) -> Prepared | None:
    """Return the plan for filters that fix `_id` and have more conditions: one `_id` index entry; None for others."""
    conditions = conjuncts(tree)
    fixing = [position for position, condition in enumerate(conditions) if _fixes_id(condition, id_index.collation)]
    if len(fixing) != 1 or any(
        _path(condition) == "_id" for condition in conditions[: fixing[0]] + conditions[fixing[0] + 1 :]
    ):
        return None
    remaining = tuple(position for position in range(len(conditions)) if position != fixing[0])
    if not all(has_free_value(conditions[position]) or _is_constant(conditions[position]) for position in remaining):
        return None
    return Prepared(id_index, 1, not remaining, True, (PreparedField("_id", 1, tuple(fixing)),), remaining)


def _fixes_id(condition: Filter, rules: Collation | None) -> bool:
    """True if the condition fixes `_id`, in an index under these rules."""
    if not isinstance(condition, Comparison) or (condition.path, condition.op) != ("_id", Op.EQ):
        return False
    return condition.collation == rules or not holds_strings(condition.value)


def _is_constant(condition: Filter) -> bool:
    """True if the condition is a constant of the shape."""
    match condition:
        case Comparison(path, _, value):
            short = len(value[1]) <= MAX_CACHED_VALUE_BYTES
            return short and path != "_id" and value[0] != DECIMAL and not _is_nan(value)
        case In():
            short = len(condition.values) <= MAX_CONSTANT_LIST_VALUES and all(
                len(member[1]) <= MAX_CACHED_VALUE_BYTES for member in condition.values
            )
            return short and condition.path != "_id"
        case Not(Comparison() | In() | Exists() | RegexMatch() as child):
            return _is_constant(child)
        case Nor(children) if len(children) <= MAX_CONSTANT_LIST_VALUES:
            return all(map(_is_constant, children))
        case DocumentTest(_, name, argument, script, collation):
            return (
                name == "$expr" and len(argument[1]) <= MAX_CACHED_VALUE_BYTES and script is None and collation is None
            )
        case _:
            return isinstance(condition, Exists | RegexMatch | TypeIs | Mod | Size)


def _is_nan(value: Value) -> bool:
    return value[0] == DOUBLE and isnan(unpack("<d", value[1])[0])


def conjuncts(tree: Filter) -> tuple[Filter, ...]:
    """Return the conditions that must all hold."""
    return tree.children if isinstance(tree, And) else (tree,)


def bounding(tree: Filter) -> list[tuple[str, Filter]]:
    """Return the conditions that must all hold, then those of each `$elemMatch` on an element, with their
    full paths.
    """
    pairs = [(_path(condition), condition) for condition in conjuncts(tree)]
    for condition in conjuncts(tree):
        if isinstance(condition, ElemMatchObject):
            pairs += [(f"{condition.path}.{_path(inner)}", inner) for inner in conjuncts(condition.filter)]
        elif isinstance(condition, ElemMatchValue):
            pairs += [(condition.path, inner) for inner in conjuncts(condition.filter)]
    return pairs


@dataclass(frozen=True, slots=True)
class PreparedField:
    """A bounded field of the index, and the places of the conditions (`bounding`) that bound it; none: it is open. The
    one condition of a `hashed` field is an equality, whose hash the index holds.
    """

    path: str
    direction: int
    positions: tuple[int, ...]
    hashed: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An index plan without its ranges, shared by all filters of a shape."""

    index: IndexInfo
    direction: int
    exact: bool
    provides_sort: bool
    fields: tuple[PreparedField, ...]
    residual: tuple[int, ...]
    """The places of the conjuncts in the residual."""

    def bind(self, tree: Filter) -> Plan | None:
        """Return the plan for a filter of the shape; None if its conditions contradict each other."""
        conditions = conjuncts(tree)
        bounded_conditions = [condition for _, condition in bounding(asked_of(tree, self.index.collation))]
        bounds = []
        for field in self.fields:
            own = [bounded_conditions[position] for position in field.positions]
            ranges = hashes_of(own) if field.hashed else _ranges(own)
            if not ranges:
                return None
            # Different values can share a hash.
            guarantees = () if field.hashed else tuple(own)
            bounds.append(FieldBounds(field.path, field.direction, ranges, guarantees))
        residual = conjunction([conditions[position] for position in self.residual]) if self.residual else None
        if self.index.wildcard is not None:
            (only,) = bounds
            item = WildcardBounds(only.path, only.ranges, False, only.guaranteed)
            scan = wildcard_scan(self.index, item, self.direction, exact=self.exact)
        else:
            scan = index_scan(self.index, bounds, self.direction, exact=self.exact)
        return Plan(scan, residual, self.provides_sort)


def _ranges(conditions: Sequence[Filter]) -> Ranges:
    if len(conditions) == 1:
        (only,) = conditions
        if isinstance(only, Comparison) and only.op is Op.EQ and only.value[0] in _KINDS:
            return (point(only.value),)
    ranges = EVERYTHING
    for condition in conditions:
        bounded = value_ranges(condition)
        if bounded is not None:
            ranges = bounded[0] if ranges is EVERYTHING else intersection(ranges, bounded[0])
    return ranges


def prepared(tree: Filter, sort: Sort, plan: Plan, indexes: Sequence[IndexInfo]) -> Prepared | None:
    """Return the reusable part of a plan for a filter that has a shape; None if other filters may not use it.

    `indexes`: all indexes that the planner chose from.
    """
    access = plan.access
    if not isinstance(access, IndexScan) or access.once or not _is_plain(access.index):
        return None
    spoken_of = _first_paths(tree, sort)
    if not all(_is_plain(index) or _is_beside(index, spoken_of, tree) for index in indexes):
        return None
    if access.wildcard is not None:
        return _of_path(tree, plan, access, access.wildcard)
    as_asked = asked_of(tree, access.index.collation)
    conditions, bounded_pairs = conjuncts(as_asked), bounding(as_asked)
    hashed = {path for path, direction in access.index.fields if not direction}
    unused_positions: set[int] = set()
    fields = []
    for item in access.bounds:
        positions: tuple[int, ...] = ()
        if item.bounded:
            positions = tuple(position for position, (path, _) in enumerate(bounded_pairs) if path == item.path)
        if len(positions) > 1 and arrays_on(item.path, access.index.arrays):
            # The planner chose one of them, unless they are conditions on one element.
            if all(position < len(conditions) and _fixes(conditions[position]) for position in positions):
                unused_positions.update(positions[1:])
                positions = positions[:1]
            elif not _are_of_one_element(conditions, positions[0]):
                return None
        if len(positions) > 1 and item.is_point:
            # Their values happen to intersect in one point.
            return None
        if len(positions) > 1 and not all(has_free_value(bounded_pairs[position][1]) for position in positions):
            # Ranges of a constant, intersected with those of values, depend on these values.
            return None
        if item.path in hashed and (len(positions) != 1 or not _fixes(bounded_pairs[positions[0]][1])):
            return None
        fields.append(PreparedField(item.path, item.direction, positions, item.path in hashed))
    guarantees = {condition for item in access.bounds for condition in item.guaranteed}
    remaining = tuple(
        position
        for position, conjunct in enumerate(conditions)
        if conjunct not in guarantees or position in unused_positions
    )
    if any(isinstance(conjunct, Or) and position not in remaining for position, conjunct in enumerate(conditions)):
        return None
    prepared_plan = Prepared(access.index, access.direction, access.exact, plan.provides_sort, tuple(fields), remaining)
    return prepared_plan if prepared_plan.bind(tree) == plan else None


def _of_path(tree: Filter, plan: Plan, access: IndexScan, item: WildcardBounds) -> Prepared | None:
    """Return as `prepared` does, for a scan of one path in a wildcard index."""
    index, as_asked = access.index, asked_of(tree, access.index.collation)
    bounded_pairs = bounding(as_asked)
    if item.below or len(index.fields) > 1:
        return None
    positions = tuple(
        position
        for position, (path, condition) in enumerate(bounded_pairs)
        if path == item.path and has_entry(condition)
    )
    if len(positions) > 1:
        free = all(has_free_value(bounded_pairs[position][1]) for position in positions)
        # With arrays the planner chose one of several; else the intersection's form must not depend on values.
        if index.multikey or not free or access.bounds[0].is_point:
            return None
    remaining = tuple(
        position for position, condition in enumerate(conjuncts(as_asked)) if condition not in item.guaranteed
    )
    field = PreparedField(item.path, 1, positions)
    prepared_plan = Prepared(index, access.direction, access.exact, plan.provides_sort, (field,), remaining)
    return prepared_plan if prepared_plan.bind(tree) == plan else None


def _fixes(condition: Filter) -> bool:
    """True if the condition is an equality with a value that is not part of the shape."""
    return isinstance(condition, Comparison) and condition.op is Op.EQ and has_free_value(condition)


def _are_of_one_element(conditions: Sequence[Filter], first: int) -> bool:
    """True if all conditions that bound a path belong to one `$elemMatch`; `first` is the place of the first."""
    matches = [condition for condition in conditions if isinstance(condition, ElemMatchObject | ElemMatchValue)]
    return first >= len(conditions) and len(matches) == 1 and isinstance(matches[0], ElemMatchValue)


def _first_paths(tree: Filter, sort: Sort) -> set[str]:
    """Return the paths by which an index may serve a filter and order of this shape, as its first field."""
    paths = {sort.fields[0][0]} if sort.fields else set()
    for conjunct in conjuncts(tree):
        for branch in conjunct.children if isinstance(conjunct, Or) else (conjunct,):
            paths.update(path for path, _ in bounding(branch))
    return paths


def _is_beside(index: IndexInfo, first_paths: set[str], tree: Filter) -> bool:
    """True if the index serves no filter of the shape of `tree`, for any values. A shape has no text search; a geometry
    index needs a region, another index its first field, and a partial index that its filter is implied.
    """
    if index.text is not None:
        return True
    if index.geometry is not None:
        return not any(isinstance(conjunct, ValueTest) and conjunct.region is not None for conjunct in conjuncts(tree))
    if index.partial is not None and not any(_implied(tree, index.partial)):
        return True
    return index.fields[0][0] not in first_paths


def _path(condition: Filter) -> str:
    inner = condition.child if isinstance(condition, Not) else condition
    return inner.path if isinstance(inner, Comparison | In | Exists | RegexMatch | TypeIs | Mod) else ""


def _is_plain(index: IndexInfo) -> bool:
    """True if the index is one of values, so that it serves all filters of a shape alike."""
    return index.geometry is None and index.text is None
