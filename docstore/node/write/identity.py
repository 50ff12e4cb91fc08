"""Filters that ask for one `_id` and nothing else."""

from __future__ import annotations

from docstore.bson import Value, elements
from docstore.bson.walk import ARRAY, NULL, OBJECT, REGEX, STRING, UNDEFINED
from docstore.query.filter.tree import Comparison, Filter, Op
from docstore.query.value.collation import Collation

_NO_IDENTITY = frozenset((ARRAY, NULL, OBJECT, REGEX, UNDEFINED))
"""Types that mean something else than equality in a filter on `_id`, or may do so."""


Match = tuple[int, bytes]
"""(record id, document)."""


def identity_of(tree: Filter, collation: Collation | None = None) -> Value | None:
    """The `_id` that the whole filter asks for; None when it asks for more or for something else.

    `collation`: that of the collection.
    """
    if not isinstance(tree, Comparison) or tree.path != "_id" or tree.op is not Op.EQ:
        return None
    compared_alike = tree.collation == collation or tree.value[0] != STRING
    return tree.value if compared_alike and tree.value[0] not in _NO_IDENTITY else None


def identity_filter(raw: bytes, collation: Collation | None = None) -> Filter | None:
    """The tree of a filter that asks for an `_id` and nothing else, as `parse_filter` gives it; None for others."""
    value = identity_in(raw)
    if value is None:
        return None
    return Comparison("_id", Op.EQ, value, collation if value[0] == STRING else None)


def identity_in(raw: bytes) -> Value | None:
    """The `_id` of a filter that asks for one and nothing else; None for others."""
    if raw[5:9] != b"_id\0":
        return None
    fields = elements(raw)
    if len(fields) != 1 or fields[0][1] in _NO_IDENTITY:
        return None
    return fields[0][1:]
