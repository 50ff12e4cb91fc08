"""Index filters (planCacheSetFilter): the indexes that may serve queries of one shape.

- A filter only removes plans; it never changes answers. If none of its indexes exists or serves the query, the plan is
  a collection scan.
- A filter overrides hints. It does not apply to lookups by `_id`, natural order, `min` and `max`.
- Filters live in memory as long as the process. They end with the collection, and survive a rename and index changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from docstore.bson.walk import OBJECT, STRING, Value
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.shape import filter_shape
from docstore.query.filter.tree import Comparison, Filter, Op
from docstore.query.find import FindQuery
from docstore.query.projection.projection import kept_paths
from docstore.query.sort import Sort
from docstore.query.value.values import text_of

_Asked = tuple[str, Sort]
"""(query shape, sort)."""


class NamedIndex(Protocol):
    """An index as a filter refers to it: by name, or by the bytes of its key pattern (`key_id`)."""

    @property
    def name(self) -> str: ...

    @property
    def key_id(self) -> bytes: ...


AnyIndex = TypeVar("AnyIndex", bound=NamedIndex)


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """One index filter. `query`, `sort`, `projection` and `collation`: the documents it was set with, for display.

    `indexes`: index names and key patterns, without duplicates.
    """

    query: bytes
    sort: bytes
    projection: bytes
    collation: bytes | None
    indexes: tuple[Value, ...]

    def admitted(self, indexes: Sequence[AnyIndex]) -> list[AnyIndex]:
        """Return those `indexes` that the filter names."""
        names = {text_of(value) for value in self.indexes if value[0] == STRING}
        keys = {encode_key(value) for value in self.indexes if value[0] == OBJECT}
        return [index for index in indexes if index.name in names or index.key_id in keys]


class IndexFilters:
    """The index filters of one collection, by shape."""

    __slots__ = ("_by_shape",)

    def __init__(self) -> None:
        self._by_shape: dict[_Asked, dict[frozenset[str] | None, IndexFilter]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_shape)

    def all(self) -> list[IndexFilter]:
        """Return all filters in the order in which their shapes were first set."""
        return [index_filter for listed in self._by_shape.values() for index_filter in listed.values()]

    def of_query(self, query: FindQuery) -> IndexFilter | None:
        """Return the filter for the query's shape."""
        if not self._by_shape or query.between is not None:
            return None
        return self.of(query.filter, query.sort, answered_by(query))

    def of(self, tree: Filter, sort: Sort, paths: frozenset[str] | None) -> IndexFilter | None:
        """Return the filter for a tree, a sort, and the `paths` of the answer (None: whole documents)."""
        if not self._by_shape or sort.natural:
            return None
        return self._by_shape.get((filter_shape(tree), sort), {}).get(paths or None)

    def about(self, tree: Filter, sort: Sort) -> bool:
        """True if a filter exists for this tree and sort, with any projection."""
        return bool(self._by_shape) and (filter_shape(tree), sort) in self._by_shape

    def put(self, query: FindQuery, index_filter: IndexFilter) -> None:
        """Set the filter for the query's shape, replacing any other."""
        shape = filter_shape(query.filter), query.sort
        self._by_shape.setdefault(shape, {})[answered_by(query)] = index_filter

    def drop(self, query: FindQuery) -> None:
        """Remove the filter for the query's shape, if there is one."""
        shape = filter_shape(query.filter), query.sort
        listed = self._by_shape.get(shape, {})
        listed.pop(answered_by(query), None)
        if not listed:
            self._by_shape.pop(shape, None)

    def clear(self) -> None:
        """Remove all filters."""
        self._by_shape.clear()


def answered_by(query: FindQuery) -> frozenset[str] | None:
    """Return the paths that the answer consists of; None if it needs whole documents, or more than values."""
    paths = query.needs if query.projection is None else kept_paths(query.projection)
    return paths or None


def is_lookup(tree: Filter) -> bool:
    """True if the filter is an equality on `_id` alone, to which no index filter applies."""
    return isinstance(tree, Comparison) and (tree.path, tree.op) == ("_id", Op.EQ)
