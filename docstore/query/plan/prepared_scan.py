"""Scans of an index that are prepared for all filters of a form (`docstore.kernel.match.form`).

Of a plan that is kept for a shape (`docstore.query.plan.shapes`) this is what runs without a tree: the values of a
filter are encoded into the two ends of a range, or into a range for each value of a list, and whatever the ranges do
not show is a predicate.

Always true: the ranges and the predicate are those of the plan that `Prepared.bind` gives for the filter. So only plans
are prepared whose leading fields are fixed to one value each, with one bounded field at most behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.bson.order import type_class
from docstore.bson.walk import ARRAY, OBJECT, Value, elements
from docstore.bson.walk import values as members
from docstore.kernel.keys.bounds import ScanBounds, Side
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.match import predicate
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Comparison, Filter, In, Op, conjunction
from docstore.query.plan.access import IndexScan
from docstore.query.plan.bounds import MAX_RANGES
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import HIGHEST, LOWEST, compound
from docstore.query.plan.shapes import Prepared, PreparedField, conjuncts, has_free_list, has_free_value
from docstore.query.plan.value_ranges import NUMBER_CLASS, NUMBERS_WITHOUT_NAN, class_range

_IN = "$in"
_OPERATORS = {f"${op.value}": op for op in Op}
_LOW = {Op.GT: True, Op.GTE: False}
_HIGH = {Op.LT: False, Op.LTE: True}
"""Whether a range begins, or ends, behind the keys of the value."""


@dataclass(frozen=True, slots=True)
class PreparedScan:
    """The ranges of `index`, gone through backwards if `reverse`.

    `constant`: what every document must satisfy besides; `free`: comparisons with values, by (path, operator or None
    for `$in`, place of the value). `order`: in which the documents are still to be sorted. `patience`: how many entries
    may be looked at in vain (0: any number).
    """

    index: IndexInfo
    bounds: ScanBounds
    reverse: bool
    constant: Predicate | None
    free: tuple[tuple[str, Op | None, int], ...]
    order: KeyPattern | None
    patience: int

    def predicate(self, values: Sequence[Value]) -> Predicate | None:
        """What the documents of the range must still satisfy."""
        if not self.free:
            return self.constant
        parts = [
            compile_filter(
                Comparison(path, op, values[place]) if op is not None else In(path, members(values[place][1]))
            )
            for path, op, place in self.free
        ]
        if self.constant is not None:
            parts.append(self.constant)
        return parts[0] if len(parts) == 1 else predicate.And(parts)


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
    conditions = conjuncts(tree)
    free = [condition for condition in conditions if has_free_value(condition) or has_free_list(condition)]
    compared = _compared(raw)
    if [each for each, _ in compared] != free or [value for _, value in compared] != values:
        # Some conditions stand elsewhere than their values were taken from.
        return None
    places = {id(condition): place for place, condition in enumerate(free)}
    bounds = _bounds(prepared.fields, conditions, places, prefix)
    plan = prepared.bind(tree)
    if bounds is None or plan is None or not isinstance(plan.access, IndexScan):
        return None
    if (bounds.bind_list(values) if bounds.listed >= 0 else [bounds.bind(values)]) != [
        (prefix + low, prefix + high) for low, high in _ranges(plan.access)
    ]:
        return None
    left = [conditions[place] for place in prepared.left]
    constant = [condition for condition in left if id(condition) not in places]
    return PreparedScan(
        prepared.index,
        bounds,
        prepared.direction < 0,
        compile_filter(conjunction(constant)) if constant else None,
        tuple(
            (condition.path, condition.op if isinstance(condition, Comparison) else None, places[id(condition)])
            for condition in left
            if isinstance(condition, Comparison | In) and id(condition) in places
        ),
        order,
        patience,
    )


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
