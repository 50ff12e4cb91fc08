"""Filters that consist of an equality on `_id`."""

from __future__ import annotations

from docstore.bson import Value, elements
from docstore.bson.walk import ARRAY, NULL, OBJECT, REGEX, STRING, UNDEFINED
from docstore.query.filter.tree import Comparison, Filter, Op
from docstore.query.value.collation import Collation

_NO_IDENTITY = frozenset((ARRAY, NULL, OBJECT, REGEX, UNDEFINED))
"""Types whose values in a filter on `_id` may mean something other than equality."""


Match = tuple[int, bytes]
"""(Record id, document)."""


def identity_of(tree: Filter, collation: Collation | None = None) -> Value | None:
    """Return the `_id` if the filter is an equality on `_id` only; else None. `collation`: the collection's."""
    if not isinstance(tree, Comparison) or tree.path != "_id" or tree.op is not Op.EQ:
        return None
    compared_alike = tree.collation == collation or tree.value[0] != STRING
    return tree.value if compared_alike and tree.value[0] not in _NO_IDENTITY else None


def identity_filter(raw: bytes, collation: Collation | None = None) -> Filter | None:
    """Return the tree of a raw filter that is an equality on `_id` only, as `parse_filter` does; else None."""
    value = identity_in(raw)
    if value is None:
        return None
    return Comparison("_id", Op.EQ, value, collation if value[0] == STRING else None)


def identity_in(raw: bytes) -> Value | None:
    """Return the `_id` of a raw filter that is an equality on `_id` only; else None."""
    if raw[5:9] != b"_id\0":
        return None
    fields = elements(raw)
    if len(fields) != 1 or fields[0][1] in _NO_IDENTITY:
        return None
    return fields[0][1:]
