# cython: annotation_typing=False
"""Index scans prepared for all filters of a form (`docstore.kernel.match.form`).

A prepared scan runs a plan cached for a shape (`docstore.query.plan.shapes`) without building a tree. It encodes the
values of a filter into the two ends of a range, or into a range for each value of a list. A predicate tests the
conditions that the ranges do not guarantee.

Invariants:
- The ranges and the predicate equal the plan that `Prepared.bind` gives for the filter.
- So only plans are prepared whose leading fields are fixed to one value each, with at most one bounded field after
  them.
- A regular expression may bound that field if it is a literal prefix and nothing else.
- A disjunction is prepared if each of its branches is a prepared scan (`docstore.query.plan.disjunction`).
- If no index serves a shape, the predicate is the whole filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cython

from docstore.bson.build import array_from, document_from
from docstore.bson.order import type_class
from docstore.bson.walk import ARRAY, OBJECT, Value, elements
from docstore.kernel.keys.bounds import ASCENDING, DESCENDING, HASHED, ScanBounds, Side
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.tree import (
    Comparison,
    Filter,
    In,
    Op,
    Or,
    RegexMatch,
)
from docstore.query.limits import MAX_LAST_FIELD_RANGES
from docstore.query.plan.access import IndexScan, Plan, Union
from docstore.query.plan.bounds import MAX_RANGES
from docstore.query.plan.free_conditions import FreeTest, Tests, compared, free_test, places_of, tests_of
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import HIGHEST, LOWEST, compound
from docstore.query.plan.shapes import (
    Prepared,
    PreparedField,
    bounding,
    conjuncts,
)
from docstore.query.plan.value_ranges import NUMBER_CLASS, NUMBERS_WITHOUT_NAN, class_range, value_ranges
from docstore.query.plan.wildcard import path_key

_IN = "$in"
_OR = "$or"
_LOW = {Op.GT: True, Op.GTE: False}
_HIGH = {Op.LT: False, Op.LTE: True}
"""True if the end of a range sorts after the keys of the value."""


@dataclass(frozen=True)
class PreparedScan:
    """The ranges of `index`, read backwards if `reverse`.

    `residual`: the tests that documents of the ranges must still pass. `order`: the order into which they must still be
    sorted. `patience`: how many entries may be read without a match (0: any number). `gathers`: the values of the
    filter are the members of one list (a disjunction of equalities). `of_one_key`: the range is that of a single key.
    `beginning`: the regular expression that bounds the field after those that `bounds` fixes; that field descends if
    `descends`. `looks_through`: all documents are read, with no order requested.
    """

    index: IndexInfo
    bounds: ScanBounds
    reverse: bool
    residual: Tests | None
    order: KeyPattern | None
    patience: int
    gathers: bool = False
    of_one_key: bool = False
    beginning: FreeTest | None = None
    descends: bool = False
    looks_through: bool = False

    @cython.ccall
    def bound(self, values: list[Value]) -> tuple[Sequence[Part], Predicate | None] | None:
        """Return the ranges for these values, and the predicate that their documents must still satisfy. None if no
        document can be in the ranges.
        """
        if self.gathers:
            values = gathered(values)
        parts = self.parts(values)
        return None if parts is None else (parts, None if self.residual is None else self.residual.predicate(values))

    @cython.ccall
    def parts(self, values: list[Value]) -> list[Part] | None:
        """Return the ranges for the values, which are gathered into one list if `gathers`."""
        bounds, collation = self.bounds, self.index.collation
        if collation is not None:
            values = list(map(collation.fold, values))
        if bounds.listed >= 0:
            return [(self.index, bounds.bind_list(values))]
        ends = bounds.bind(values)
        if self.beginning is not None and ends is not None:
            return self._pattern_parts(ends[0], self.beginning.pattern(values[self.beginning.position]))
        return None if ends is None else [(self.index, (ends,))]

    def _pattern_parts(self, start: bytes, pattern: RegexMatch) -> list[Part] | None:
        """Return the ranges of the strings after `start`; None for a pattern that is not a pure prefix."""
        bounded = value_ranges(pattern)
        if bounded is None or not bounded[1]:
            return None
        ranges = [key_range.descending() for key_range in reversed(bounded[0])] if self.descends else bounded[0]
        return [(self.index, [(start + key_range.lo, start + key_range.hi) for key_range in ranges])]


@dataclass(frozen=True)
class PreparedUnion:
    """The documents of several scans, each once: the scans one after the other, or, if `as_one`, all in the order of
    the one index that they share.
    """

    branches: tuple[PreparedScan, ...]
    as_one: bool
    residual: Tests | None
    order: KeyPattern | None
    patience: int

    reverse = False
    looks_through = False

    @cython.ccall
    def bound(self, values: list[Value]) -> tuple[Sequence[Part], Predicate | None] | None:
        """Return as `PreparedScan.bound` does: the ranges of the branches, in order."""
        parts = self.parts(values)
        return None if parts is None else (parts, None if self.residual is None else self.residual.predicate(values))

    @cython.ccall
    def parts(self, values: list[Value]) -> list[Part] | None:
        parts: list[Part] = []
        for branch in self.branches:
            branch_parts = branch.parts(values)
            if branch_parts is None:
                return None
            parts += branch_parts
        return (
            [(parts[0][0], _united([key_range for _, ranges in parts for key_range in ranges]))]
            if self.as_one
            else parts
        )


@dataclass(frozen=True)
class PreparedCollection:
    """All documents of a collection, in its order, for a form that no index serves; `residual` and `order` as in
    `PreparedScan`.
    """

    residual: Tests | None
    order: KeyPattern | None

    patience = 0
    reverse = False
    looks_through = True

    @cython.ccall
    def bound(self, values: list[Value]) -> tuple[Sequence[Part], Predicate | None]:
        """Return as `PreparedScan.bound` does, without ranges."""
        return (), None if self.residual is None else self.residual.predicate(values)


def gathered(values: list[Value]) -> list[Value]:
    """Return the values as members of one list."""
    return [(ARRAY, array_from(values))]


Part = tuple[IndexInfo, Sequence[tuple[bytes, bytes]]]
"""Ranges of entries of one index."""


def prepared_scan(
    raw: bytes,
    values: list[Value],
    tree: Filter,
    prepared: Prepared,
    *,
    prefix: bytes,
    order: KeyPattern | None,
    patience: int,
) -> PreparedScan | None:
    """Return the scan for filters of the form of `raw`, with the values `values` and the tree `tree`. None if its plan
    is more than one range. `prefix` begins the entries of the plan's index.
    """
    if isinstance(tree, In) and (listed := _gathered(raw)) is not None:
        as_list = gathered(values)
        list_query = document_from([(tree.path, OBJECT, document_from([(_IN, *as_list[0])]))])
        scan = None
        if listed == values:
            scan = prepared_scan(list_query, as_list, tree, prepared, prefix=prefix, order=order, patience=patience)
        return None if scan is None else replace(scan, gathers=True)
    positions = places_of(raw, values, tree)
    return None if positions is None else _scan(values, tree, positions, prepared, prefix, order, patience)


def prepared_collection(
    raw: bytes, values: list[Value], tree: Filter, *, order: KeyPattern | None
) -> PreparedCollection | None:
    """Return as `prepared_scan` does, for a filter whose plan reads all documents."""
    positions, conditions = places_of(raw, values, tree), conjuncts(tree)
    if positions is None:
        return None
    return PreparedCollection(tests_of(conditions, positions) if conditions else None, order)


def prepared_union(
    raw: bytes,
    values: list[Value],
    tree: Filter,
    plan: Plan,
    of_branch: Callable[[Filter], tuple[Prepared, bytes] | None],
    *,
    order: KeyPattern | None,
    patience: int,
) -> PreparedUnion | None:
    """Return as `prepared_scan` does, for a filter with one disjunction, whose `plan` unites its branches' documents.

    `of_branch` returns the plan of a branch, and the prefix of its index's entries.
    """
    disjunctions = [condition for condition in conjuncts(tree) if isinstance(condition, Or)]
    positions = places_of(raw, values, tree)
    if len(disjunctions) != 1 or positions is None:
        return None
    scans: list[PreparedScan] = []
    for child in disjunctions[0].children:
        planned = of_branch(child)
        scan = None if planned is None else _scan(values, child, positions, *planned, None, 0)
        if scan is None or scan.reverse:
            return None
        scans.append(scan)
    access = plan.access
    if plan.residual is not None and plan.residual is not tree:
        return None
    residual = None if plan.residual is None else tests_of(conjuncts(tree), positions)
    union = PreparedUnion(tuple(scans), isinstance(access, IndexScan), residual, order, patience)
    if isinstance(access, Union):
        return union if len(access.branches) == len(scans) else None
    if not isinstance(access, IndexScan) or access.direction < 0 or len({scan.index.name for scan in scans}) > 1:
        return None
    prefix = scans[0].bounds.prefix
    parts = union.parts(values)
    expected = [(prefix + low, prefix + high) for ranges in access.field_ranges() for low, high in ranges]
    return union if parts is not None and parts[0][1] == expected else None


def _scan(
    values: list[Value],
    tree: Filter,
    positions: dict[int, int],
    prepared: Prepared,
    prefix: bytes,
    order: KeyPattern | None,
    patience: int,
) -> PreparedScan | None:
    conditions = conjuncts(tree)
    fields = prepared.fields
    bounded_conditions = [condition for _, condition in bounding(tree)]
    beginning = _beginning(fields[-1], bounded_conditions, positions) if fields else None
    start = prefix + path_key(fields[0].path) if prepared.index.wildcard is not None else prefix
    bounds = _bounds(fields, bounded_conditions, positions, start, has_pattern=beginning is not None)
    plan = prepared.bind(tree)
    if bounds is None or plan is None or not isinstance(plan.access, IndexScan):
        return None
    if prepared.direction < 0 and (beginning is not None or (bounds.listed >= 0 and not prepared.index.is_id)):
        # A backward scan supports one range, or one entry in each range.
        return None
    residual = [conditions[position] for position in prepared.residual]
    points = [field for field in plan.access.bounds if field.is_point]
    scan = PreparedScan(
        prepared.index, bounds, prepared.direction < 0, tests_of(residual, positions) if residual else None, order,
        patience, of_one_key=bounds.listed < 0 and len(points) == len(prepared.index.fields),
        beginning=beginning, descends=bool(fields) and fields[-1].direction < 0,
    )  # fmt: skip
    parts = scan.parts(values)
    expected = [(prefix + low, prefix + high) for low, high in _ranges(plan.access)]
    return scan if parts is not None and list(parts[0][1]) == expected else None


def _beginning(field: PreparedField, conditions: Sequence[Filter], positions: dict[int, int]) -> FreeTest | None:
    """Return the regular expression that bounds the field, if it is a pure prefix of strings; else None."""
    if len(field.positions) != 1:
        return None
    condition = conditions[field.positions[0]]
    if not isinstance(condition, RegexMatch) or id(condition) not in positions:
        return None
    bounded = value_ranges(condition)
    return free_test(condition, positions) if bounded is not None and bounded[1] else None


def _gathered(raw: bytes) -> list[Value] | None:
    """Return the values of a filter that is one disjunction and nothing else; None for others."""
    fields = elements(raw)
    return [value for _, value in compared(raw)] if [name for name, _, _ in fields] == [_OR] else None


def _united(ranges: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the ranges in order, with touching ones joined."""
    united: list[tuple[bytes, bytes]] = []
    for low, high in sorted(ranges):
        if united and low <= united[-1][1]:
            united[-1] = (united[-1][0], max(high, united[-1][1]))
        else:
            united.append((low, high))
    return united


def _ranges(access: IndexScan) -> Sequence[tuple[bytes, bytes]]:
    """Return the ranges of keys that the scan reads; none if they depend on the entries it reads."""
    if not access.checked:
        return access.ranges
    last = access.bounds[-1]
    if not all(item.is_point for item in access.bounds[:-1]) or not (
        last.points or len(last.ranges) <= MAX_LAST_FIELD_RANGES
    ):
        return ()
    return compound([(item.ranges, item.direction) for item in access.bounds], MAX_RANGES)[0]


def _bounds(
    fields: Sequence[PreparedField],
    conditions: Sequence[Filter],
    positions: dict[int, int],
    prefix: bytes,
    *,
    has_pattern: bool,
) -> ScanBounds | None:
    """Return the bounds that the conditions of these places set; without the last field if `has_pattern`."""
    if has_pattern:
        fields = fields[:-1]
    fixed: list[tuple[int, int]] = []
    for field in fields:
        own = [conditions[position] for position in field.positions]
        if not own or any(id(condition) not in positions for condition in own):
            return None
        if isinstance(own[0], In) and has_pattern:
            return None
        if isinstance(own[0], In):
            # `prepared` admits no list among several conditions on one path.
            listed = positions[id(own[0])]
            return ScanBounds(prefix, fixed, None, None, field.direction < 0, listed) if field is fields[-1] else None
        comparisons = [condition for condition in own if isinstance(condition, Comparison)]
        if len(comparisons) < len(own):
            return None
        if comparisons[0].op is Op.EQ:
            if len(comparisons) > 1:
                return None
            making = HASHED if field.hashed else DESCENDING if field.direction < 0 else ASCENDING
            fixed.append((positions[id(comparisons[0])], making))
            continue
        sides = None if has_pattern else _sides(comparisons, positions)
        if sides is None or field is not fields[-1]:
            return None
        return ScanBounds(prefix, fixed, *sides, field.direction < 0)
    if fields or has_pattern:
        return ScanBounds(prefix, fixed)
    # The index gives the order, and the scan reads all of it.
    return ScanBounds(prefix, (), Side(-1, False, LOWEST), Side(-1, False, HIGHEST))


def _sides(comparisons: Sequence[Comparison], positions: dict[int, int]) -> tuple[Side, Side] | None:
    """Return the two ends of a field's range; None if a side has more than one bound."""
    classes = {type_class(comparison.value[0]) for comparison in comparisons}
    low = [comparison for comparison in comparisons if comparison.op in _LOW]
    high = [comparison for comparison in comparisons if comparison.op in _HIGH]
    if len(classes) > 1 or len(low) > 1 or len(high) > 1 or len(low) + len(high) < len(comparisons):
        return None
    class_bounds = NUMBERS_WITHOUT_NAN if NUMBER_CLASS in classes else class_range(comparisons[0].value[0])
    return (
        Side(positions[id(low[0])], _LOW[low[0].op], b"") if low else Side(-1, False, class_bounds.lo),
        Side(positions[id(high[0])], _HIGH[high[0].op], b"") if high else Side(-1, False, class_bounds.hi),
    )
