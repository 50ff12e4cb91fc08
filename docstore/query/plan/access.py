"""Access paths: the source of a query's documents, and the work that remains to be done on them."""

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

    `key_scan`: in a clustered collection, the scan of the cluster key's index that bounds the documents read; the
    filter must still be applied to them. `least` and `greatest` are the first and the last `_id` read (None: no bound).
    """

    direction: int = 1
    key_scan: IndexScan | None = None
    least: Value | None = None
    greatest: Value | None = None


@dataclass(frozen=True, slots=True)
class IdLookup:
    """The one document with this `_id`."""

    value: Value


@dataclass(frozen=True, slots=True)
class IndexScan:
    """The documents of an index whose keys lie in the ranges.

    `ranges` are sorted half-open ranges over the encoded compound key (fields in the index's own directions). With
    direction -1 they are read from the last to the first, each backwards. `exact`: every document found satisfies the
    filter. A multikey index may yield a document more than once. `bounds` and `wildcard` are the source of the ranges.
    `checked`: entries in the ranges count only if each of their fields is in its bounds. With `once` only the first
    entry counts for each key of that many leading fields.
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
        """Return the sorted ranges of key bytes for each bounded field, in the index's own direction."""
        ranges: list[list[tuple[bytes, bytes]]] = []
        for item in self.bounds:
            turned = (
                [key_range.descending() for key_range in reversed(item.ranges)] if item.direction < 0 else item.ranges
            )
            ranges.append([(key_range.lo, key_range.hi) for key_range in paced(turned)])
        return ranges


def wildcard_scan(index: IndexInfo, item: WildcardBounds, direction: int, *, exact: bool) -> IndexScan:
    """Return the scan of one path in a wildcard index without other fields."""
    field = FieldBounds(item.path, 1, item.ranges, item.guaranteed)
    return IndexScan(index, item.key_ranges(), direction, exact=exact, bounds=(field,), wildcard=item)


def index_scan(index: IndexInfo, bounds: Sequence[FieldBounds], direction: int, *, exact: bool = False) -> IndexScan:
    """Return the scan of the keys whose leading fields lie within the bounds; each of these must have ranges."""
    if not bounds:
        return IndexScan(index, ((LOWEST, HIGHEST),), direction, exact)
    last = len(bounds) - 1
    if len(bounds[last].ranges) == 1 and all(item.is_point for item in bounds[:last]):
        ranges = compound([(item.ranges, item.direction) for item in bounds], 1)[0]
        return IndexScan(index, tuple(ranges), direction, exact, tuple(bounds))
    span = Range(bounds[0].ranges[0].lo, bounds[0].ranges[-1].hi)
    if bounds[0].direction < 0:
        span = span.descending()
    return IndexScan(index, ((span.lo, span.hi),), direction, exact, tuple(bounds), checked=True)


@dataclass(frozen=True, slots=True)
class NearScan:
    """The documents by their distance from the point of `near`, each once.

    `bounds` are those of all fields of the index. The field at `position` holds the geometry; its bounds depend on the
    radius (`scan_within`).
    """

    index: IndexInfo
    near: Near
    bounds: tuple[FieldBounds, ...]
    position: int

    @property
    def alone(self) -> bool:
        """True if the index bounds no field but the geometry."""
        return not any(
            field_bounds.bounded for position, field_bounds in enumerate(self.bounds) if position != self.position
        )

    def scan_within(self, radius: float, cells: int = REGION_CELLS) -> IndexScan:
        """Return a scan that covers all documents up to a distance; the more cells, the fewer others it reads."""
        assert self.index.geometry is not None
        region, single = region_around(self.near, radius), not self.index.multikey
        ranges = self.index.geometry.ranges(region, cells, single=single)
        assert ranges is not None, "the index serves the point"
        bounds = list(self.bounds)
        bounds[self.position] = FieldBounds(bounds[self.position].path, 1, ranges)
        return index_scan(self.index, bounded_part(bounds), 1)


@dataclass(frozen=True, slots=True)
class Union:
    """The documents of several sources, each once."""

    branches: tuple[IndexScan | IdLookup | Eof, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """The documents of several index scans, each once, merged in the order that all of them have.

    `fixed`: how many leading fields of its index each branch fixes to one value; the key after them is the order.
    """

    branches: tuple[IndexScan, ...]
    fixed: tuple[int, ...]


Access = Eof | CollectionScan | IdLookup | IndexScan | NearScan | Union | Merge


@dataclass(frozen=True, slots=True)
class Plan:
    """An access path. `residual` is the filter still to be applied to its documents (None: nothing).

    `rejected` are the other usable plans, the likeliest first. `works`: the entries or documents read in the trial that
    the plan won. `patience` of a cached plan: how many of its works may yield nothing before it is planned again.
    """

    access: Access
    residual: Filter | None
    provides_sort: bool
    rejected: tuple[Plan, ...] = field(default=(), compare=False)
    works: int = field(default=0, compare=False)
    patience: int = field(default=0, compare=False)
