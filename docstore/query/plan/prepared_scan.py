"""Scans of an index that are prepared for all filters of a form (`docstore.kernel.match.form`).

Of a plan that is kept for a shape (`docstore.query.plan.shapes`) this is what runs without a tree: the values of a
filter are encoded into the two ends of a range, or into a range for each value of a list, and whatever the ranges do
not show is a predicate.

Always true: the ranges and the predicate are those of the plan that `Prepared.bind` gives for the filter. So only plans
are prepared whose leading fields are fixed to one value each, with one bounded field at most behind them. A disjunction
is prepared where each of its branches is such a scan (`docstore.query.plan.disjunction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from docstore.bson.build import array_from, document_from
from docstore.bson.order import type_class
from docstore.bson.walk import ARRAY, OBJECT, Value, elements
from docstore.bson.walk import values as members
from docstore.kernel.keys.bounds import ScanBounds, Side
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.match import predicate
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Comparison, Filter, In, Op, Or, conjunction
from docstore.query.plan.access import IndexScan, Plan, Union
from docstore.query.plan.bounds import MAX_RANGES
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import HIGHEST, LOWEST, compound
from docstore.query.plan.shapes import Prepared, PreparedField, conjuncts, has_free_list, has_free_value
from docstore.query.plan.value_ranges import NUMBER_CLASS, NUMBERS_WITHOUT_NAN, class_range

_IN = "$in"
_OR = "$or"
_OPERATORS = {f"${op.value}": op for op in Op}
_LOW = {Op.GT: True, Op.GTE: False}
_HIGH = {Op.LT: False, Op.LTE: True}
"""Whether a range begins, or ends, behind the keys of the value."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Conditions that all hold.

    `constant`: those that all filters of the form have; `free`: comparisons with values, by (path, operator or None for
    `$in`, place of the value); `either`: disjunctions, by their branches.
    """

    constant: Predicate | None
    free: tuple[tuple[str, Op | None, int], ...]
    either: tuple[tuple[Tests, ...], ...]

    def predicate(self, values: Sequence[Value]) -> Predicate:
        """The predicate of a filter with these values."""
        parts = [
            compile_filter(
                Comparison(path, op, values[place]) if op is not None else In(path, members(values[place][1]))
            )
            for path, op, place in self.free
        ]
        for branches in self.either:
            parts.append(predicate.Or([branch.predicate(values) for branch in branches]))
        if self.constant is not None:
            parts.append(self.constant)
        return parts[0] if len(parts) == 1 else predicate.And(parts)


@dataclass(frozen=True, slots=True)
class PreparedScan:
    """The ranges of `index`, gone through backwards if `reverse`.

    `left`: what the documents of the ranges must still satisfy. `order`: in which they are still to be sorted.
    `patience`: how many entries may be looked at in vain (0: any number). `gathers`: the values of the filter are the
    members of one list (a disjunction of equalities). `of_one_key`: the range is that of a single key.
    """

    index: IndexInfo
    bounds: ScanBounds
    reverse: bool
    left: Tests | None
    order: KeyPattern | None
    patience: int
    gathers: bool = False
    of_one_key: bool = False

    def bound(self, values: list[Value]) -> tuple[Sequence[Part], Predicate | None] | None:
        """The ranges for these values, and what their documents must still satisfy; None where nothing can lie in one
        of them.
        """
        if self.gathers:
            values = gathered(values)
        parts = self.parts(values)
        return None if parts is None else (parts, None if self.left is None else self.left.predicate(values))

    def parts(self, values: list[Value]) -> list[Part] | None:
        """The ranges for the values, gathered where they are to be."""
        bounds = self.bounds
        if bounds.listed >= 0:
            return [(self.index, bounds.bind_list(values))]
        ends = bounds.bind(values)
        return None if ends is None else [(self.index, (ends,))]


@dataclass(frozen=True, slots=True)
class PreparedUnion:
    """The documents of several scans, each once: those of the first one first, or, if `as_one`, all of them in the
    order of the one index that they are of.
    """

    branches: tuple[PreparedScan, ...]
    as_one: bool
    left: Tests | None
    order: KeyPattern | None
    patience: int

    reverse = False

    def bound(self, values: list[Value]) -> tuple[Sequence[Part], Predicate | None] | None:
        """As `PreparedScan.bound`: the ranges of the branches, in order."""
        parts = self.parts(values)
        return None if parts is None else (parts, None if self.left is None else self.left.predicate(values))

    def parts(self, values: list[Value]) -> list[Part] | None:
        found: list[Part] = []
        for branch in self.branches:
            parts = branch.parts(values)
            if parts is None:
                return None
            found += parts
        return [(found[0][0], _united([each for _, ranges in found for each in ranges]))] if self.as_one else found


def gathered(values: list[Value]) -> list[Value]:
    """The values as members of one list."""
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
    """The scan for filters of the form of `raw`, whose values are `values` and whose tree is `tree`; None where its
    plan is more than one range. `prefix`: what the entries of the plan's index begin with.
    """
    if isinstance(tree, In) and (listed := _gathered(raw)) is not None:
        as_list = gathered(values)
        asked = document_from([(tree.path, OBJECT, document_from([(_IN, *as_list[0])]))])
        found = None
        if listed == values:
            found = prepared_scan(asked, as_list, tree, prepared, prefix=prefix, order=order, patience=patience)
        return None if found is None else replace(found, gathers=True)
    places = _places(raw, values, tree)
    return None if places is None else _scan(values, tree, places, prepared, prefix, order, patience)


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
    """As `prepared_scan`, for a filter with one disjunction, whose `plan` unites what its branches find.

    `of_branch`: the plan of a branch, and what the entries of its index begin with.
    """
    found = [each for each in conjuncts(tree) if isinstance(each, Or)]
    places = _places(raw, values, tree)
    if len(found) != 1 or places is None:
        return None
    scans: list[PreparedScan] = []
    for child in found[0].children:
        planned = of_branch(child)
        scan = None if planned is None else _scan(values, child, places, *planned, None, 0)
        if scan is None or scan.reverse:
            return None
        scans.append(scan)
    access = plan.access
    if plan.residual is not None and plan.residual is not tree:
        return None
    left = None if plan.residual is None else _tests(conjuncts(tree), places)
    union = PreparedUnion(tuple(scans), isinstance(access, IndexScan), left, order, patience)
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
    places: dict[int, int],
    prepared: Prepared,
    prefix: bytes,
    order: KeyPattern | None,
    patience: int,
) -> PreparedScan | None:
    conditions = conjuncts(tree)
    bounds = _bounds(prepared.fields, conditions, places, prefix)
    plan = prepared.bind(tree)
    if bounds is None or plan is None or not isinstance(plan.access, IndexScan):
        return None
    if (bounds.bind_list(values) if bounds.listed >= 0 else [bounds.bind(values)]) != [
        (prefix + low, prefix + high) for low, high in _ranges(plan.access)
    ]:
        return None
    left = [conditions[place] for place in prepared.left]
    points = [field for field in plan.access.bounds if field.is_point]
    return PreparedScan(
        prepared.index, bounds, prepared.direction < 0, _tests(left, places) if left else None, order, patience,
        of_one_key=bounds.listed < 0 and len(points) == len(prepared.index.fields),
    )  # fmt: skip


def _tests(conditions: Sequence[Filter], places: dict[int, int]) -> Tests:
    """What is to be tested of conditions whose values have these places."""
    either = [condition for condition in conditions if isinstance(condition, Or)]
    constant = [condition for condition in conditions if id(condition) not in places and condition not in either]
    return Tests(
        compile_filter(conjunction(constant)) if constant else None,
        tuple(
            (condition.path, condition.op if isinstance(condition, Comparison) else None, places[id(condition)])
            for condition in conditions
            if isinstance(condition, Comparison | In) and id(condition) in places
        ),
        tuple(tuple(_tests(conjuncts(child), places) for child in each.children) for each in either),
    )


def _places(raw: bytes, values: list[Value], tree: Filter) -> dict[int, int] | None:
    """Which of the values the conditions of the tree have, by their identity; None where some stand elsewhere than
    their values were taken from.
    """
    free = [each for each in _flat(tree) if has_free_value(each) or has_free_list(each)]
    compared = _compared(raw)
    if [each for each, _ in compared] != free or [value for _, value in compared] != values:
        return None
    places = {id(condition): place for place, condition in enumerate(free)}
    return places if len(places) == len(free) else None


def _flat(tree: Filter) -> Iterator[Filter]:
    """The conditions of the tree and of the branches of its disjunctions, in order."""
    for each in conjuncts(tree):
        if isinstance(each, Or):
            for child in each.children:
                yield from conjuncts(child)
        else:
            yield each


def _gathered(raw: bytes) -> list[Value] | None:
    """The values of a filter that is nothing but a disjunction; None for others."""
    fields = elements(raw)
    return [value for _, value in _compared(raw)] if [name for name, _, _ in fields] == [_OR] else None


def _united(ranges: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The ranges in order, those that touch as one."""
    found: list[tuple[bytes, bytes]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _ranges(access: IndexScan) -> Sequence[tuple[bytes, bytes]]:
    """The ranges of keys that the scan leads to; none where they are not known before entries are looked at."""
    if not access.checked:
        return access.ranges
    if not all(item.is_point for item in access.bounds[:-1]) or not access.bounds[-1].points:
        return ()
    return compound([(item.ranges, item.direction) for item in access.bounds], MAX_RANGES)[0]


def _compared(raw: bytes) -> list[tuple[Filter, Value]]:
    """The comparisons whose values are not part of the form, in their order, with these values."""
    found: list[tuple[Filter, Value]] = []
    for path, code, data in elements(raw):
        if path.startswith("$"):
            if path == _OR and code == ARRAY:
                for kind, branch in members(data):
                    found += _compared(branch) if kind == OBJECT else ()
            continue
        asked = [("$eq", code, data)]
        if code == OBJECT:
            asked = [each for each in elements(data) if each[0] in _OPERATORS or each[0] == _IN]
        for name, kind, value in asked:
            if name != _IN:
                found.append((Comparison(path, _OPERATORS[name], (kind, value)), (kind, value)))
            elif kind == ARRAY:
                found.append((In(path, tuple(members(value))), (kind, value)))
    return [each for each in found if has_free_value(each[0]) or has_free_list(each[0])]


def _bounds(
    fields: Sequence[PreparedField], conditions: Sequence[Filter], places: dict[int, int], prefix: bytes
) -> ScanBounds | None:
    fixed: list[tuple[int, bool]] = []
    for field in fields:
        bounding = [conditions[place] for place in field.places]
        if not bounding or any(id(each) not in places for each in bounding):
            return None
        if isinstance(bounding[0], In):
            # Of several conditions on one path none is a list: `prepared` sees to it.
            listed = places[id(bounding[0])]
            return ScanBounds(prefix, fixed, None, None, field.direction < 0, listed) if field is fields[-1] else None
        comparisons = [each for each in bounding if isinstance(each, Comparison)]
        if comparisons[0].op is Op.EQ:
            if len(comparisons) > 1:
                return None
            fixed.append((places[id(comparisons[0])], field.direction < 0))
            continue
        sides = _sides(comparisons, places)
        if sides is None or field is not fields[-1]:
            return None
        return ScanBounds(prefix, fixed, *sides, field.direction < 0)
    if fields:
        return ScanBounds(prefix, fixed)
    # The index gives the order, and all of it is gone through.
    return ScanBounds(prefix, (), Side(-1, False, LOWEST), Side(-1, False, HIGHEST))


def _sides(comparisons: Sequence[Comparison], places: dict[int, int]) -> tuple[Side, Side] | None:
    """The two ends of the range of a field; None where it is not bounded once from each side at most."""
    classes = {type_class(each.value[0]) for each in comparisons}
    low = [each for each in comparisons if each.op in _LOW]
    high = [each for each in comparisons if each.op in _HIGH]
    if len(classes) > 1 or len(low) > 1 or len(high) > 1 or len(low) + len(high) < len(comparisons):
        return None
    whole = NUMBERS_WITHOUT_NAN if NUMBER_CLASS in classes else class_range(comparisons[0].value[0])
    return (
        Side(places[id(low[0])], _LOW[low[0].op], b"") if low else Side(-1, False, whole.lo),
        Side(places[id(high[0])], _HIGH[high[0].op], b"") if high else Side(-1, False, whole.hi),
    )
