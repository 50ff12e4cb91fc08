"""Access paths: where the documents of a query come from, and what is still to be done with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from docstore.bson.walk import Value
from docstore.query.bounds import FieldBounds
from docstore.query.index_bounds import IndexInfo
from docstore.query.tree import Filter
from docstore.query.wildcard import WildcardBounds


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

    def field_ranges(self) -> list[list[tuple[bytes, bytes]]]:
        """For each of the bounded fields the sorted ranges of its key bytes, as they stand in the index."""
        found: list[list[tuple[bytes, bytes]]] = []
        for item in self.bounds:
            turned = [each.descending() for each in reversed(item.ranges)] if item.direction < 0 else item.ranges
            found.append([(each.lo, each.hi) for each in turned])
        return found


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


Access = Eof | CollectionScan | IdLookup | IndexScan | Union | Merge


@dataclass(frozen=True, slots=True)
class Plan:
    """An access path. `residual` is the filter still to be applied to what it yields (None: nothing).

    `rejected` are the other plans that would do, the likeliest first.
    """

    access: Access
    residual: Filter | None
    provides_sort: bool
    rejected: tuple[Plan, ...] = field(default=(), compare=False)
