"""Access paths: where the documents of a query come from, and what is still to be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from docstore.bson.walk import Value
from docstore.query.filter.tree import Filter, Near, TextSearch
from docstore.query.geo.cell_keys import REGION_CELLS
from docstore.query.geo.distances import region_around
from docstore.query.plan.bounds import FieldBounds
from docstore.query.plan.index_bounds import IndexInfo, bounded_part
from docstore.query.plan.intervals import HIGHEST, LOWEST, Range, compound
from docstore.query.plan.wildcard import WildcardBounds
from docstore.query.value.long_lists import paced


@dataclass(frozen=True, slots=True)
class Eof:
    """No document can satisfy the filter."""


@dataclass(frozen=True, slots=True)
class CollectionScan:
    """All documents in natural order, forwards (1) or backwards (-1).

    `within`: the scan of the index that a clustered collection is ordered by, which leads to those in its bounds; what
    the filter says is still to be asked of them. `least` and `greatest` are the first and the last `_id` that are
    looked at (None: no bound).
    """

    direction: int = 1
    within: IndexScan | None = None
    least: Value | None = None
    greatest: Value | None = None


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
    say where the ranges come from. `checked`: of the entries in the ranges only those count of which each field is in
    its bounds. With `once` only the first entry counts for each key of that many leading fields.
    """

    index: IndexInfo
    ranges: tuple[tuple[bytes, bytes], ...]
    direction: int
    exact: bool
    bounds: tuple[FieldBounds, ...] = field(default=(), compare=False)
    wildcard: WildcardBounds | None = field(default=None, compare=False)
    checked: bool = False
    once: int = 0
    text: TextSearch | None = field(default=None, compare=False)
    """The text search whose terms are looked up."""

    def field_ranges(self) -> list[list[tuple[bytes, bytes]]]:
        """For each of the bounded fields the sorted ranges of its key bytes, as they stand in the index."""
        found: list[list[tuple[bytes, bytes]]] = []
        for item in self.bounds:
            turned = [each.descending() for each in reversed(item.ranges)] if item.direction < 0 else item.ranges
            found.append([(each.lo, each.hi) for each in paced(turned)])
        return found


def wildcard_scan(index: IndexInfo, item: WildcardBounds, direction: int, *, exact: bool) -> IndexScan:
    """The scan of what an index of wildcard paths alone holds of one path."""
    field = FieldBounds(item.path, 1, item.ranges, item.met)
    return IndexScan(index, item.key_ranges(), direction, exact=exact, bounds=(field,), wildcard=item)


def index_scan(index: IndexInfo, bounds: Sequence[FieldBounds], direction: int, *, exact: bool = False) -> IndexScan:
    """The scan of the keys whose leading fields lie within the bounds, which have ranges each."""
    if not bounds:
        return IndexScan(index, ((LOWEST, HIGHEST),), direction, exact)
    last = len(bounds) - 1
    if len(bounds[last].ranges) == 1 and all(item.is_point for item in bounds[:last]):
        ranges = compound([(item.ranges, item.direction) for item in bounds], 1)[0]
        return IndexScan(index, tuple(ranges), direction, exact, tuple(bounds))
    whole = Range(bounds[0].ranges[0].lo, bounds[0].ranges[-1].hi)
    if bounds[0].direction < 0:
        whole = whole.descending()
    return IndexScan(index, ((whole.lo, whole.hi),), direction, exact, tuple(bounds), checked=True)


@dataclass(frozen=True, slots=True)
class NearScan:
    """The documents by their distance from the point of `near`, each once.

    `bounds` are those of all fields of the index; at `place` is the field of the geometry, whose bounds depend on how
    far is looked (`within`).
    """

    index: IndexInfo
    near: Near
    bounds: tuple[FieldBounds, ...]
    place: int

    @property
    def alone(self) -> bool:
        """Whether no other field of the index is bounded."""
        return not any(each.bounded for place, each in enumerate(self.bounds) if place != self.place)

    def within(self, radius: float, cells: int = REGION_CELLS) -> IndexScan:
        """The entries that lead to all documents up to a distance, and to some others, the fewer the more cells."""
        assert self.index.geometry is not None
        region, single = region_around(self.near, radius), not self.index.multikey
        ranges = self.index.geometry.ranges(region, cells, single=single)
        assert ranges is not None, "the index serves the point"
        bounds = list(self.bounds)
        bounds[self.place] = FieldBounds(bounds[self.place].path, 1, ranges)
        return index_scan(self.index, bounded_part(bounds), 1)


@dataclass(frozen=True, slots=True)
class Union:
    """The documents of several sources, each once."""

    branches: tuple[IndexScan | IdLookup | Eof, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """The documents of several scans of indexes, each once, in the order that all of them have.

    `fixed`: how many leading fields of its index each branch fixes to one value; the key behind them is the order.
    """

    branches: tuple[IndexScan, ...]
    fixed: tuple[int, ...]


Access = Eof | CollectionScan | IdLookup | IndexScan | NearScan | Union | Merge


@dataclass(frozen=True, slots=True)
class Plan:
    """An access path. `residual` is the filter still to be applied to what it yields (None: nothing).

    `rejected` are the other plans that would do, the likeliest first. `works`: how many entries or documents were
    looked at when it was found to be the best of them. `patience` of one that was kept: how many may be in vain.
    """

    access: Access
    residual: Filter | None
    provides_sort: bool
    rejected: tuple[Plan, ...] = field(default=(), compare=False)
    works: int = field(default=0, compare=False)
    patience: int = field(default=0, compare=False)
