"""The choice of an access path, as a pure function of the filter, the order, the hint and the indexes.

A plan says where the documents come from; the filter is applied to all of them unless the bounds are `exact`. Always
true: a plan's source holds every document that satisfies the filter (`docstore.query.bounds`), and `provides_sort` is
only set when the source yields them in the order asked for.

* A filter that fixes `_id` is a lookup.
* Otherwise every index whose first field is bounded is scored by how tightly its leading fields are bound; an index
  that yields the order is taken over a collection scan even without bounds.
* A multikey index provides an order only as a whole: within bounds a document would come at the place of whichever
  element is in them.
* An index that does not hold every document serves the filters of `docstore.query.index_bounds.covers`.
* A disjunction is a union when every branch finds an index of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from docstore.bson.walk import ARRAY, NULL, REGEX, UNDEFINED, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.bounds import MAX_RANGES, FieldBounds
from docstore.query.collation import Collation, holds_strings
from docstore.query.find import Hint, KeyBetween
from docstore.query.index_bounds import IndexInfo, asked_of, covers, usable_bounds
from docstore.query.intervals import HIGHEST, LOWEST, Ranges, compound
from docstore.query.sort import UNSORTED, Sort
from docstore.query.tree import And, Comparison, Filter, In, Op, Or, conjunction
from docstore.query.wildcard import WildcardBounds, wildcard_bounds


@dataclass(frozen=True, slots=True)
class Eof:
    """No document can satisfy the filter."""


@dataclass(frozen=True, slots=True)
class CollectionScan:
    """All documents in natural order, forwards (1) or backwards (-1)."""

    direction: int = 1


@dataclass(frozen=True, slots=True)
class IdLookup:
    """The one document with this `_id`."""

    value: Value


@dataclass(frozen=True, slots=True)
class IndexScan:
    """The documents of an index whose keys lie in the ranges.

    `ranges` are sorted half-open ranges over the encoded compound key (fields in the index's own directions); with
    direction -1 they are gone through from the last to the first, each backwards. `exact`: every document found
    satisfies the filter. A document may be found more than once when the index is multikey. `bounds` and `wildcard`
    say where the ranges come from.
    """

    index: IndexInfo
    ranges: tuple[tuple[bytes, bytes], ...]
    direction: int
    exact: bool
    bounds: tuple[FieldBounds, ...] = field(default=(), compare=False)
    wildcard: WildcardBounds | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Union:
    """The documents of several sources, each once."""

    branches: tuple[IndexScan | IdLookup | Eof, ...]


Access = Eof | CollectionScan | IdLookup | IndexScan | Union


@dataclass(frozen=True, slots=True)
class Plan:
    """An access path. `residual` is the filter still to be applied to what it yields (None: nothing).

    `rejected` are the other plans that would do, the likeliest first.
    """

    access: Access
    residual: Filter | None
    provides_sort: bool
    rejected: tuple[Plan, ...] = field(default=(), compare=False)


_ID_INDEX = "_id_"

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
    best = _best_index(tree, indexes, sort)
    if best is not None:
        return best
    united = _union(tree, indexes)
    if united is not None:
        return Plan(*united, not sort)
    return _collection_scan(tree, sort, 1)


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
    return _hinted_index(tree, _named(indexes, hint), sort)


def _named(indexes: Sequence[IndexInfo], hint: Hint) -> IndexInfo:
    named = [
        index for index in indexes if index.name == hint.name or (hint.key is not None and index.key_id == hint.key)
    ]
    if not named:
        raise CommandError(Code.BadValue, "hint provided does not correspond to an existing index")
    if len(named) > 1:
        raise CommandError(Code.IndexNotFound, "several indexes of different collations have the key of the hint")
    return named[0]


def _between(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint | None, between: KeyBetween) -> Plan:
    if hint is None:
        raise CommandError(51173, "When using min()/max() a hint of which index to use must be provided")
    if hint.natural:
        raise CommandError(Code.NoQueryExecutionPlans, "min and max are incompatible with $natural")
    index = _named(indexes, hint)
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
    return _scan(tree, index, bounds, sort, _sort_direction(index, bounds, sort))


def _best_index(tree: Filter, indexes: Sequence[IndexInfo], sort: Sort) -> Plan | None:
    candidates: list[_Candidate] = []
    for index in indexes:
        coverage = covers(tree, index)
        if index.wildcard is not None:
            candidates += _wildcard_plans(tree, index, sort) if coverage.bounded else []
            continue
        bounds = usable_bounds(asked_of(tree, index.collation), index) if coverage.bounded else []
        direction = _sort_direction(index, bounds, sort)
        if bounds or (direction and coverage.whole):
            score = (_tightness(bounds, index), int(direction != 0), -len(index.fields))
            candidates.append((score, _scan(tree, index, bounds, sort, direction)))
    return _best(candidates)


def _best(candidates: list[_Candidate]) -> Plan | None:
    if not candidates:
        return None
    best, *others = sorted(candidates, key=lambda found: found[0], reverse=True)
    return replace(best[1], rejected=tuple(plan for _, plan in others)) if others else best[1]


def _wildcard_plans(tree: Filter, index: IndexInfo, sort: Sort) -> list[_Candidate]:
    assert index.wildcard is not None
    found: list[_Candidate] = []
    for item in wildcard_bounds(asked_of(tree, index.collation), index.wildcard, multikey=index.multikey):
        field = FieldBounds(item.path, 1, item.ranges, exact=False)
        by_path = tuple(path for path, _ in sort.fields) == (item.path,) and sort.collation == index.collation
        ordered = by_path and not index.multikey and not item.below
        direction = sort.fields[0][1] if ordered else 0
        if not item.ranges:
            return [((0,), Plan(Eof(), None, True))]
        scan = IndexScan(index, item.key_ranges(), direction or 1, exact=False, bounds=(field,), wildcard=item)
        # An index of the path alone is smaller than one of all paths.
        found.append(((_tightness([field], index) - 1, int(ordered), -2), Plan(scan, tree, not sort or ordered)))
    return found


def _scan(tree: Filter, index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort, direction: int) -> Plan:
    ranges: tuple[tuple[bytes, bytes], ...]
    if not bounds:
        ranges, used = _EVERYTHING, 0
    else:
        made, used = compound([(item.ranges, item.direction) for item in bounds], MAX_RANGES)
        ranges = tuple(made)
        if not ranges:
            return Plan(Eof(), None, True)
    residual = _residual(tree, bounds[:used], index.collation)
    exact = residual is None and not index.multikey
    scan = IndexScan(index, ranges, direction or 1, exact, tuple(bounds))
    return Plan(scan, residual, not sort or direction != 0)


_EVERYTHING = ((LOWEST, HIGHEST),)


def _residual(tree: Filter, bounds: Sequence[FieldBounds], collation: Collation | None) -> Filter | None:
    """What the filter says beyond the bounds: conditions on a path whose ranges are exact are met by every entry."""
    exact = {item.path for item in bounds if item.exact}
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    left = [child for child in conjuncts if not _is_met(child, exact, collation)]
    return conjunction(left) if left else None


def _is_met(condition: Filter, exact: set[str], collation: Collation | None) -> bool:
    """Whether exact bounds of its path in an index with that collation say all of the condition."""
    asked = asked_of(condition, collation)
    return isinstance(asked, Comparison | In) and asked.path in exact


def _tightness(bounds: Sequence[FieldBounds], index: IndexInfo) -> int:
    """How few keys the bounds are likely to hold; fields behind the first that is no single point count for little."""
    score = 0
    for item in bounds:
        if len(item.ranges) == 1 and item.ranges[0].point:
            score += 100
            continue
        if all(found.point for found in item.ranges):
            return score + 80
        closed = all(len(found.lo) > 1 and len(found.hi) > 1 for found in item.ranges)
        return score + (50 if closed else 30)
    if index.unique and len(bounds) == len(index.fields):
        score += 1000
    return score


def _sort_direction(index: IndexInfo, bounds: Sequence[FieldBounds], sort: Sort) -> int:
    """1 or -1 when scanning the index that way yields the order, 0 when it does not (or none is asked for)."""
    if not sort.fields or sort.collation != index.collation or (index.multikey and bounds):
        return 0
    fixed = {item.path for item in bounds if _is_single_point(item.ranges)}
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


def _is_single_point(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0].point


def _union(tree: Filter, indexes: Sequence[IndexInfo]) -> tuple[Union, Filter | None] | None:
    """(a union that holds what the filter finds, what is left of the filter)."""
    if isinstance(tree, And):
        for child in tree.children:
            found = _union(child, indexes) if isinstance(child, Or) else None
            if found is not None:
                return found[0], tree
        return None
    if not isinstance(tree, Or):
        return None
    branches: list[IndexScan | IdLookup | Eof] = []
    exact = True
    for child in tree.children:
        plan = choose(child, indexes)
        if isinstance(plan.access, CollectionScan):
            return None
        branches.extend(plan.access.branches if isinstance(plan.access, Union) else [plan.access])
        exact = exact and plan.residual is None
    return Union(tuple(branches)), None if exact else tree
