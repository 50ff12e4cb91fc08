"""Geometry and text searches prepared for a form of filter: the region or text searched for is one of its values.

Invariants:
- The bound search is the plan of the filter; nothing is bound if that plan could be another.
- The index has no other field, and holds every document with something at its path.
- Beside a region, no condition or order is allowed that another index may serve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, Value, elements
from docstore.kernel.match import predicate
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.text_operator import parse_text
from docstore.query.filter.tree import Filter, Near, TextSearch, ValueTest, conjunction
from docstore.query.geo.cell_keys import REGION_CELLS, Reach
from docstore.query.geo.operators import parse_geo
from docstore.query.limits import MAX_PREPARED_ARGUMENT_BYTES
from docstore.query.metadata import Order
from docstore.query.plan.access import IndexScan, NearScan, Plan
from docstore.query.plan.bounds import FieldBounds
from docstore.query.plan.free_conditions import Tests, places_of, tests_of
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.intervals import EVERYTHING, points_of
from docstore.query.plan.shapes import conjuncts
from docstore.query.sort import Sort
from docstore.query.text.search import Search, TextMatcher

Part = tuple[IndexInfo, Sequence[tuple[bytes, bytes]]]
"""Ranges of entries of one index."""

Sought = Near | TextSearch | ValueTest

Bound = tuple[Sequence[Part], Predicate | None, NearScan | None, Reach | None]
"""(the ranges to read, the predicate that their documents must still satisfy, the near scan whose order they have if
any, a test that drops entries which cannot lead to a match).
"""


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """A search in `index`, whose entries begin with `prefix`, for the value at `position`, like the form's `first`.

    `residual`: the tests of the other values. `order`: the order into which documents must still be sorted. An order by
    text score uses the search that was bound last.
    """

    index: IndexInfo
    prefix: bytes
    position: int
    first: Sought
    residual: Tests | None
    order: Order | None

    patience = 0
    reverse = False
    looks_through = False

    def bound(self, values: list[Value]) -> Bound | None:
        """Return the bound search; None if the filter's plan is another. Errors: those of parsing the argument."""
        sought, other_values = values[self.position], values[: self.position] + values[self.position + 1 :]
        if len(sought[1]) > MAX_PREPARED_ARGUMENT_BYTES:
            return None
        predicates = [] if self.residual is None else [self.residual.predicate(other_values)]
        if isinstance(self.first, TextSearch):
            return self._of_texts(self.first, sought, predicates)
        condition = parse_geo(self.first.path, elements(sought[1]))
        geometry = self.index.geometry
        assert geometry is not None, "it was found by the index"
        if isinstance(condition, Near):
            if not geometry.serves(spherical=condition.spherical, geojson=condition.geojson):
                return None
            access = NearScan(self.index, condition, (FieldBounds(condition.path, 1, EVERYTHING),), 0)
            return [(self.index, ())], _all_of(predicates), access, None
        if condition.region is None:
            return None
        ranges = geometry.pairs(condition.region, REGION_CELLS, single=not self.index.multikey)
        if ranges is None:
            return None
        # A multikey entry outside the region may belong to a document that another entry leads to.
        reach = None if self.index.multikey else geometry.reach(condition.region)
        return self._parts(ranges), _all_of([compile_filter(condition), *predicates]), None, reach

    def _of_texts(self, first: TextSearch, sought: Value, predicates: list[Predicate]) -> Bound | None:
        text_search = _parsed_text(sought)
        # Bind the scores that the order and the metadata read.
        search = self._settled(text_search, first.matcher)
        if not search.looked_up:
            return None
        ranges = [(low, high) for low, high, _ in points_of(search.keys())]
        if not search.is_plain:
            # A cursor may test documents after another search has been bound.
            own = replace(text_search, matcher=TextMatcher())
            self._settled(own, own.matcher)
            predicates.append(compile_filter(own))
        return self._parts(ranges), _all_of(predicates), None, None

    def _parts(self, ranges: list[tuple[bytes, bytes]]) -> list[Part]:
        prefix = self.prefix
        return [(self.index, [(prefix + low, prefix + high) for low, high in ranges])]

    def _settled(self, text_search: TextSearch, matcher: TextMatcher) -> Search:
        assert self.index.text is not None, "it was found by the index"
        return matcher.settle(text_search.search, text_search.language, text_search.exactness, self.index.text)


_parsed_text = lru_cache(maxsize=256)(parse_text)


def _all_of(parts: list[Predicate]) -> Predicate | None:
    return parts[0] if len(parts) == 1 else predicate.And(parts) if parts else None


def sought_in(tree: Filter) -> list[Sought]:
    """Return the searches in the conjunction at the top of a filter."""
    return [
        condition
        for condition in conjuncts(tree)
        if isinstance(condition, Near | TextSearch)
        or (isinstance(condition, ValueTest) and condition.region is not None)
    ]


def prepared_search(
    raw: bytes,
    values: list[Value],
    tree: Filter,
    plan: Plan,
    order: Sort,
    indexes: Sequence[IndexInfo],
    prefix_of: Callable[[IndexInfo], bytes],
) -> PreparedSearch | None:
    """Return the search for filters of the form of `raw`, whose values are `values`. `plan` is that of its `tree` and
    this order, chosen from the indexes, whose entries begin with `prefix_of` them. None if the plan cannot be prepared.
    """
    searches, access = sought_in(tree), plan.access
    positions = [position for position, (code, _) in enumerate(values) if code == OBJECT]
    if len(searches) != 1 or len(positions) != 1 or not isinstance(access, IndexScan | NearScan) or plan.rejected:
        return None
    first, index = searches[0], access.index
    of_texts = isinstance(first, TextSearch)
    if not _holds_all(index) or (index.text if of_texts else index.geometry) is None:
        return None
    if order.measures and not of_texts:
        # The order is by the distances from the first point.
        return None
    fields = elements(raw)
    other_fields = [member for member in fields if (member[1], member[2]) != values[positions[0]]]
    if len(other_fields) != len(fields) - 1:
        return None
    if isinstance(first, ValueTest | Near) and not _is_alone(
        index, [name for name, _, _ in other_fields], order, indexes
    ):
        return None
    other_conditions = (
        conjunction([member for member in conjuncts(tree) if member is not first]) if other_fields else None
    )
    tests = None
    if other_conditions is not None:
        other_values = [value for position, value in enumerate(values) if position != positions[0]]
        positions_of_others = places_of(document_from(other_fields), other_values, other_conditions)
        if positions_of_others is None:
            return None
        tests = tests_of(conjuncts(other_conditions), positions_of_others)
    pattern = order.pattern() if order.fields and not plan.provides_sort else None
    prefix = prefix_of(index)
    search = PreparedSearch(index, prefix, positions[0], first, tests, pattern)
    bound = search.bound(values)
    if bound is None or (bound[2] is None) != isinstance(access, IndexScan):
        return None
    if isinstance(access, IndexScan):
        expected = [(prefix + low, prefix + high) for low, high in access.field_ranges()[0]]
        return search if list(bound[0][0][1]) == expected else None
    return search


def _holds_all(index: IndexInfo) -> bool:
    return len(index.fields) == 1 and index.partial is None and index.collation is None


def _is_alone(index: IndexInfo, field_names: list[str], order: Sort, indexes: Sequence[IndexInfo]) -> bool:
    """True if no other index can serve a filter on fields of these names, or the order."""
    names = {*field_names, *(path for path, _ in order.fields[:1])}
    if any(name.startswith("$") for name in names):
        return False
    return not any(
        other is not index
        and other.text is None
        and ((other.wildcard is not None and names) or other.fields[0][0] in (*names, index.fields[0][0]))
        for other in indexes
    )
