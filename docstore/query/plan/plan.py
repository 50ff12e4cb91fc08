"""The choice of an access path, as a pure function of the filter, the order, the hint and the indexes.

A plan says where the documents come from; the filter is applied to all of them unless the bounds are `exact`. Always
true: a plan's source holds every document that satisfies the filter (`docstore.query.plan.bounds`), and `provides_sort`
is only set when the source yields them in the order asked for.

* A filter that fixes `_id` is a lookup.
* Otherwise every index whose first field is bounded is scored by how tightly its leading fields are bound; an index
  that yields the order is taken over a collection scan even without bounds.
* Entries of an index whose leading fields are fixed to a few points are in the order of the fields behind those for
  each of the points: merged, they are so together. The same goes for the branches of a disjunction.
* A field with arrays provides an order only as a whole: within bounds a document would come at the place of whichever
  element is in them.
* An index that does not hold every document serves the filters of `docstore.query.plan.index_bounds.covers`.
* A disjunction is a union when every branch finds an index of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from docstore.bson.walk import ARRAY, NULL, REGEX, UNDEFINED, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import And, Comparison, Filter, In, Nor, Not, Op, Or, conjunction
from docstore.query.find import Hint, KeyBetween
from docstore.query.plan.access import (
    Access,
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
from docstore.query.plan.bounds import FieldBounds, arrays_on
from docstore.query.plan.index_bounds import IndexInfo, asked_of, covers, usable_bounds
from docstore.query.plan.intervals import EVERYTHING, HIGHEST, LOWEST, union
from docstore.query.plan.value_ranges import Condition
from docstore.query.plan.wildcard import wildcard_bounds
from docstore.query.sort import UNSORTED, Sort
from docstore.query.value.collation import Collation, holds_strings

_ID_INDEX = "_id_"

MOST_MERGED = 200
"""Most scans that are merged into one order."""

_Candidate = tuple[tuple[int, ...], Plan]
"""(score, plan): the higher the better."""


def choose(
    tree: Filter,
    indexes: Sequence[IndexInfo],
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    between: KeyBetween | None = None,
) -> Plan:
    """The plan for a filter and an order. A hint that names no index is refused with BadValue.

    `between` needs a hint whose index has its fields: errors 51173, 51174, 51175 for bounds in the wrong order.
    """
    if between is not None:
        return _between(tree, indexes, sort, hint, between)
    if hint is not None:
        return _hinted(tree, indexes, sort, hint)
    if sort.natural:
        return _collection_scan(tree, sort, sort.natural)
    id_collation = next((index.collation for index in indexes if index.name == _ID_INDEX), None)
    looked_up = _id_value(tree, id_collation)
    if looked_up is not None:
        return Plan(IdLookup(looked_up), _beside_id(tree, looked_up, id_collation), True)
    best = _best([*_index_plans(tree, indexes, sort), *_union_plans(tree, indexes, sort)])
    return _collection_scan(tree, sort, 1) if best is None else best


def _collection_scan(tree: Filter, sort: Sort, direction: int) -> Plan:
    return Plan(CollectionScan(direction), None if tree == And(()) else tree, not sort.fields)


def _id_value(tree: Filter, collation: Collation | None) -> Value | None:
    """The value that the filter fixes `_id` to. An array or a regex in the filter can mean something else, and so can
    a string that is compared by other rules than those of the `_id` index.
    """
    if isinstance(tree, And):
        for child in tree.children:
            found = _id_value(child, collation)
            if found is not None:
                return found
        return None
    value = None
    if not isinstance(tree, Comparison | In) or tree.path != "_id":
        return None
    if isinstance(tree, Comparison) and tree.op is Op.EQ:
        value = tree.value
    elif isinstance(tree, In) and len(tree.values) == 1 and not tree.patterns:
        value = tree.values[0]
    if value is None or value[0] in (ARRAY, NULL, REGEX, UNDEFINED):
        return None
    return value if tree.collation == collation or not holds_strings(value) else None


def _beside_id(tree: Filter, value: Value, collation: Collation | None) -> Filter | None:
    """What the filter says besides fixing `_id` to the value."""
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    left = [child for child in conjuncts if _id_value(child, collation) != value or isinstance(child, And)]
    return conjunction(left) if left else None


def _hinted(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint) -> Plan:
    if sort.natural and not hint.natural:
        raise CommandError(Code.BadValue, "index hint not allowed with $natural sort order")
    if hint.natural:
        return _collection_scan(tree, sort, hint.natural)
    return _hinted_index(tree, named(indexes, hint), sort)


def named(indexes: Sequence[IndexInfo], hint: Hint) -> IndexInfo:
    """The index of a hint. Errors: BadValue for none, IndexNotFound for several."""
    found = [
        index for index in indexes if index.name == hint.name or (hint.key is not None and index.key_id == hint.key)
    ]
    if not found:
        raise CommandError(Code.BadValue, "hint provided does not correspond to an existing index")
    if len(found) > 1:
        raise CommandError(Code.IndexNotFound, "several indexes of different collations have the key of the hint")
    return found[0]


def _between(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint | None, between: KeyBetween) -> Plan:
    if hint is None:
        raise CommandError(51173, "When using min()/max() a hint of which index to use must be provided")
    if hint.natural:
        raise CommandError(Code.NoQueryExecutionPlans, "min and max are incompatible with $natural")
    index = named(indexes, hint)
    low, high = LOWEST, HIGHEST
    for given in (between.lowest, between.highest):
        if given is None:
            continue
        fields = elements(given)
        if index.wildcard is not None or [name for name, _, _ in fields] != [path for path, _ in index.fields]:
            raise CommandError(51174, "The index chosen is not compatible with min/max")
        if between.collation != index.collation and any(holds_strings((code, data)) for _, code, data in fields):
            raise CommandError(51174, "The index chosen compares strings by another collation than the request")
        key = index.key_pattern.encode([(code, data) for _, code, data in fields])
        low, high = (key, high) if given is between.lowest else (low, key)
    if low >= high:
        raise CommandError(51175, "The value provided for min() does not come before the value provided for max()")
    direction = 0 if index.multikey else _sort_direction(index, (), sort)
    scan = IndexScan(index, ((low, high),), direction or 1, exact=False)
    return Plan(scan, None if tree == And(()) else tree, not sort or direction != 0)


def _hinted_index(tree: Filter, index: IndexInfo, sort: Sort) -> Plan:
    """An index without usable bounds is read as a whole; documents that it does not hold are then not found."""
    if index.wildcard is not None:
        found = _best(_wildcard_plans(tree, index, sort)) if covers(tree, index).bounded else None
        if found is None:
            raise CommandError(Code.NoQueryExecutionPlans, "a hinted wildcard index serves no condition of the filter")
        return found
    bounds = usable_bounds(asked_of(tree, index.collation), index) if covers(tree, index).bounded else []
    return _scan(tree, index, bounds, sort)


def _index_plans(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort) -> list[_Candidate]:
    candidates: list[_Candidate] = []
    for index in indexes:
        coverage = covers(tree, index)
        if index.wildcard is not None:
            candidates += _wildcard_plans(tree, index, sort) if coverage.bounded else []
            continue
        bounds = usable_bounds(asked_of(tree, index.collation), index) if coverage.bounded else []
        if bounds or (coverage.whole and _sort_direction(index, (), sort)):
            plan = _scan(tree, index, bounds, sort)
            ordered = int(plan.provides_sort and bool(sort))
            candidates.append(((_tightness(bounds, index), ordered, -len(index.fields)), plan))
    return candidates


def _best(candidates: list[_Candidate]) -> Plan | None:
    if not candidates:
        return None
    best, *others = sorted(candidates, key=lambda found: found[0], reverse=True)
    return replace(best[1], rejected=tuple(plan for _, plan in others)) if others else best[1]


def _wildcard_plans(tree: Filter, index: IndexInfo, sort: Sort) -> list[_Candidate]:
    assert index.wildcard is not None
    found: list[_Candidate] = []
    for item in wildcard_bounds(asked_of(tree, index.collation), index.wildcard, multikey=index.multikey):
        field = FieldBounds(item.path, 1, item.ranges)
        by_path = tuple(path for path, _ in sort.fields) == (item.path,) and sort.collation == index.collation
        ordered = by_path and not index.multikey and not item.below
        direction = sort.fields[0][1] if ordered else 0
        if not item.ranges:
            return [((0,), Plan(Eof(), None, True))]
        scan = IndexScan(index, item.key_ranges(), direction or 1, exact=False, bounds=(field,), wildcard=item)
        # An index of the path alone is smaller than one of all paths.
        found.append(((_tightness([field], index) - 1, int(ordered), -2), Plan(scan, tree, not sort or ordered)))
    return found


def _scan(tree: Filter, index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> Plan:
    if any(not item.ranges for item in bounds):
        return Plan(Eof(), None, True)
    rest = residual(tree, bounds, index.collation)
    direction = _sort_direction(index, bounds, sort)
    if sort and not direction:
        merged = _exploded(index, bounds, sort)
        if merged is not None:
            return Plan(Merge(tuple(scan for scan, _ in merged), tuple(fixed for _, fixed in merged)), rest, True)
    scan = index_scan(index, bounds, direction or 1)
    return Plan(replace(scan, exact=rest is None and not index.multikey), rest, not sort or direction != 0)


def _exploded(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> list[tuple[IndexScan, int]] | None:
    """(scan of one combination of points of the leading fields, how many fields those are) for all of them, in the
    order of the scan, where each has the order that is asked for.
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
        split = [[replace(item, ranges=(found,)) for found in item.ranges] for item in bounds[:fixed]]
        first = [choices[0] for choices in split]
        direction = _merged_direction(index, [*first, *bounds[fixed:]], sort, fixed)
        if direction:
            turned = [choices[:: item.direction * direction] for choices, item in zip(split, bounds, strict=False)]
            return [(index_scan(index, [*points, *bounds[fixed:]], direction), fixed) for points in product(*turned)]
    return None


def _merged_direction(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort, fixed: int) -> int:
    """As `_sort_direction`, where the order begins right behind the fixed fields."""
    own = index.fields[fixed : fixed + len(sort.fields)]
    if [path for path, _ in own] != [path for path, _ in sort.fields] or not _keeps_order(index, bounds, sort):
        return 0
    turned = own[0][1] * sort.fields[0][1]
    same = all(towards * turned == direction for (_, towards), (_, direction) in zip(own, sort.fields, strict=True))
    return turned if same else 0


def residual(tree: Filter, bounds: Sequence[FieldBounds], collation: Collation | None) -> Filter | None:
    """What the filter says beyond the bounds."""
    met = {condition for item in bounds for condition in item.met}
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    left = [child for child in conjuncts if not _is_met(asked_of(child, collation), met)]
    return conjunction(left) if left else None


def _is_met(condition: Filter, met: set[Condition]) -> bool:
    if isinstance(condition, Nor):
        return all(_is_met(Not(child), met) for child in condition.children)
    if isinstance(condition, Not) and isinstance(condition.child, Not):
        return _is_met(condition.child.child, met)
    return condition in met


def _tightness(bounds: Sequence[FieldBounds], index: IndexInfo) -> int:
    """How few keys the bounds are likely to hold; fields behind the first that is no single point count for little."""
    score = 0
    for item in bounds:
        if _is_single_point(item):
            score += 100
            continue
        if item.points:
            return score + 80
        return score + _width(item) + sum(later.bounded for later in bounds[bounds.index(item) + 1 :])
    if index.unique and len(bounds) == len(index.fields):
        score += 1000
    return score


def _width(item: FieldBounds) -> int:
    """The more, the fewer values are likely to be in the ranges."""
    if not item.bounded:
        return 5
    if not item.ranges:
        return 100
    first, last = item.ranges[0], item.ranges[-1]
    if first.lo == LOWEST and last.hi == HIGHEST:
        return 10
    return 30 if any(len(found.lo) == 1 or len(found.hi) == 1 for found in item.ranges) else 50


def _sort_direction(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> int:
    """1 or -1 when scanning the index that way yields the order, 0 when it does not (or none is asked for)."""
    if not sort.fields or not _keeps_order(index, bounds, sort):
        return 0
    fixed = {item.path for item in bounds if _is_single_point(item)}
    wanted = [(path, direction) for path, direction in sort.fields if path not in fixed]
    own = [(path, direction) for path, direction in index.fields if path not in fixed]
    if not wanted:
        return 1
    if len(own) < len(wanted):
        return 0
    turned = wanted[0][1] * own[0][1]
    same = all(
        path == other and direction * turned == towards
        for (path, direction), (other, towards) in zip(wanted, own, strict=False)
    )
    return turned if same else 0


def _keeps_order(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> bool:
    """Whether the bounds leave the fields of the order their least and greatest elements."""
    if sort.collation != index.collation:
        return False
    on_the_way = [arrays_on(path, index.arrays) for path, _ in sort.fields]
    return all(
        not item.bounded or all(found.isdisjoint(arrays_on(item.path, index.arrays)) for found in on_the_way)
        for item in bounds
    )


def _is_single_point(item: FieldBounds) -> bool:
    return len(item.ranges) == 1 and item.ranges[0].point


def _union_plans(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort) -> list[_Candidate]:
    """The plans that unite what the branches of a disjunction find."""
    found: list[_Candidate] = []
    if isinstance(tree, And):
        for child in tree.children:
            if isinstance(child, Or):
                # Which of the indexes of the conjunction is better is for others to say.
                found += [
                    ((0, *score[1:]), replace(plan, residual=tree)) for score, plan in _united(child, indexes, sort)
                ]
        return found[:1]
    return _united(tree, indexes, sort) if isinstance(tree, Or) else []


def _united(tree: Or, indexes: Sequence[IndexInfo], sort: Sort) -> list[_Candidate]:
    if sort:
        merged = _merged_union(tree, indexes, sort)
        if merged is not None:
            return [((1, 1, 0), merged)]
    branches: list[IndexScan | IdLookup | Eof] = []
    exact = True
    for child in tree.children:
        plan = choose(child, indexes)
        if isinstance(plan.access, CollectionScan | Merge | NearScan):
            return []
        branches.extend(plan.access.branches if isinstance(plan.access, Union) else [plan.access])
        exact = exact and plan.residual is None
    access = _one_scan(branches) if exact else None
    return [((1, 0, 0), Plan(access or Union(tuple(branches)), None if exact else tree, not sort))]


def _one_scan(branches: Sequence[IndexScan | IdLookup | Eof]) -> IndexScan | None:
    """One scan in the place of several that bound only the first field of one index."""
    scans = [branch for branch in branches if isinstance(branch, IndexScan)]
    if len(scans) < len(branches) or len({scan.index.name for scan in scans}) > 1:
        return None
    if not scans or any(len(scan.bounds) != 1 or scan.wildcard is not None for scan in scans):
        return None
    first = scans[0]
    ranges = union(found for scan in scans for found in scan.bounds[0].ranges)
    return replace(index_scan(first.index, [FieldBounds(*first.index.fields[0], ranges)], 1), exact=first.exact)


def over_distinct(tree: Filter, indexes: Sequence[IndexInfo], path: str, hint: Hint | None) -> Plan | None:
    """A plan that reads an index only once for each value of the path that the filter lets through; None: there is
    none.
    """
    for index in indexes:
        place = next((place for place, (own, _) in enumerate(index.fields) if own == path), None)
        if place is None or index.wildcard is not None or 0 in dict(index.fields).values():
            continue
        if arrays_on(path, index.arrays) or (hint is not None and named(indexes, hint) is not index):
            continue
        coverage = covers(tree, index)
        bounds = usable_bounds(asked_of(tree, index.collation), index) if coverage.bounded else []
        if (not bounds and not coverage.whole) or index.collation is not None:
            continue
        if any(not item.ranges for item in bounds) or residual(tree, bounds, None) is not None:
            continue
        if place > len(bounds) or not all(_is_single_point(item) for item in bounds[:place]):
            continue
        if len(bounds) == place:
            bounds = [*bounds, FieldBounds(*index.fields[place], EVERYTHING)]
        scan = replace(index_scan(index, bounds, 1), once=place + 1)
        return Plan(scan, None, True)
    return None


def _merged_union(tree: Or, indexes: Sequence[IndexInfo], sort: Sort) -> Plan | None:
    """The branches of a disjunction merged in the order asked for, where there is an index with it for each."""
    exact = True
    by_form: dict[tuple[int, ...], list[tuple[IndexScan, int]]] | None = None
    for child in tree.children:
        choices: dict[tuple[int, ...], list[tuple[IndexScan, int]]] = {}
        met: dict[tuple[int, ...], bool] = {}
        for _, plan in _index_plans(child, indexes, sort):
            scans = _ordered_scans(plan.access, sort)
            if scans:
                scan, fixed = scans[0]
                form = (scan.direction, *(towards for _, towards in scan.index.fields[fixed:][: len(sort.fields)]))
                if form not in choices or (plan.residual is None and not met[form]):
                    choices[form], met[form] = scans, plan.residual is None
        if by_form is None:
            by_form = choices
        else:
            by_form = {form: [*by_form[form], *choices[form]] for form in by_form if form in choices}
        exact = exact and all(met.values())
    chosen = next(iter(by_form.values()), None) if by_form else None
    if chosen is None or len(chosen) > MOST_MERGED:
        return None
    access = Merge(tuple(scan for scan, _ in chosen), tuple(fixed for _, fixed in chosen))
    return Plan(access, None if exact else tree, True)


def _ordered_scans(access: Access, sort: Sort) -> list[tuple[IndexScan, int]]:
    """(scan, fixed fields) of what can be merged with others: bounded scans with the order behind fixed fields."""
    if isinstance(access, Merge):
        return list(zip(access.branches, access.fixed, strict=True))
    if not isinstance(access, IndexScan) or access.wildcard is not None or not access.bounds:
        return []
    fixed = 0
    while True:
        if _merged_direction(access.index, access.bounds, sort, fixed) == access.direction:
            return [(access, fixed)]
        if fixed == len(access.bounds) or not _is_single_point(access.bounds[fixed]):
            return []
        fixed += 1
