"""Index filters: which of a collection's indexes may serve queries of one shape, as an operator says.

Always true: they only leave fewer plans, never other answers. Where none of the indexes is there, or serves the query,
the collection is looked through. A hint does not count where there is a filter; a lookup by `_id` alone, a natural
order, `min` and `max` are left as they are. Filters live as long as the process, go with the collection, and are kept
when its indexes or its name change.
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
"""What a query finds and in which order."""


class NamedIndex(Protocol):
    """An index as an index filter names it: by name, or by the bytes of its key pattern (`key_id`)."""

    @property
    def name(self) -> str: ...

    @property
    def key_id(self) -> bytes: ...


AnyIndex = TypeVar("AnyIndex", bound=NamedIndex)


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """One filter. `query`, `sort`, `projection` and `collation` are the documents that it was set with, for showing;
    `indexes` the names and key patterns, each once.
    """

    query: bytes
    sort: bytes
    projection: bytes
    collation: bytes | None
    indexes: tuple[Value, ...]

    def admitted(self, indexes: Sequence[AnyIndex]) -> list[AnyIndex]:
        """Those of the indexes that it names."""
        names = {text_of(each) for each in self.indexes if each[0] == STRING}
        keys = {encode_key(each) for each in self.indexes if each[0] == OBJECT}
        return [index for index in indexes if index.name in names or index.key_id in keys]


class IndexFilters:
    """Those of one collection."""

    __slots__ = ("_by_shape",)

    def __init__(self) -> None:
        self._by_shape: dict[_Asked, dict[frozenset[str] | None, IndexFilter]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_shape)

    def all(self) -> list[IndexFilter]:
        """In the order in which their shapes were first named."""
        return [each for listed in self._by_shape.values() for each in listed.values()]

    def of_query(self, query: FindQuery) -> IndexFilter | None:
        """The filter for queries like this one."""
        if not self._by_shape or query.between is not None:
            return None
        return self.of(query.filter, query.sort, answered_by(query))

    def of(self, tree: Filter, sort: Sort, paths: frozenset[str] | None) -> IndexFilter | None:
        """The filter for what finds by `tree`, in that order, and answers with what is at `paths` (None: documents)."""
        if not self._by_shape or sort.natural:
            return None
        return self._by_shape.get((filter_shape(tree), sort), {}).get(paths or None)

    def about(self, tree: Filter, sort: Sort) -> bool:
        """Whether there is one for such a filter and order, whatever is answered."""
        return bool(self._by_shape) and (filter_shape(tree), sort) in self._by_shape

    def put(self, query: FindQuery, index_filter: IndexFilter) -> None:
        """Set the filter for queries like that one, in the place of another."""
        asked = filter_shape(query.filter), query.sort
        self._by_shape.setdefault(asked, {})[answered_by(query)] = index_filter

    def drop(self, query: FindQuery) -> None:
        """Forget the filter for queries like that one, if there is one."""
        asked = filter_shape(query.filter), query.sort
        listed = self._by_shape.get(asked, {})
        listed.pop(answered_by(query), None)
        if not listed:
            self._by_shape.pop(asked, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._by_shape.clear()


def answered_by(query: FindQuery) -> frozenset[str] | None:
    """The paths that the answer is made of; None for whole documents, or for what says more than the values."""
    found = query.needs if query.projection is None else kept_paths(query.projection)
    return found or None


def is_lookup(tree: Filter) -> bool:
    """Whether `_id` alone says which document is found, which no index filter changes."""
    return isinstance(tree, Comparison) and (tree.path, tree.op) == ("_id", Op.EQ)
