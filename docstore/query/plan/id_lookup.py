"""Filters that fix `_id` to one value: the value, and the rest of the filter."""

from __future__ import annotations

from docstore.bson.walk import ARRAY, NULL, REGEX, UNDEFINED, Value
from docstore.query.filter.tree import And, Comparison, Filter, In, Op, conjunction
from docstore.query.value.collation import Collation, holds_strings
from docstore.query.value.long_lists import paced


def id_value(tree: Filter, collation: Collation | None) -> Value | None:
    """Return the value that the filter fixes `_id` to, else None. An array or a regex can match other values, and so
    can a string compared by other rules than the `_id` index has.
    """
    if isinstance(tree, And):
        for child in paced(tree.children):
            child_value = id_value(child, collation)
            if child_value is not None:
                return child_value
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


def beside_id(tree: Filter, value: Value, collation: Collation | None) -> Filter | None:
    """Return the filter without the equality that fixes `_id` to the value; None if nothing remains."""
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    remaining = [child for child in conjuncts if id_value(child, collation) != value or isinstance(child, And)]
    return conjunction(remaining) if remaining else None
