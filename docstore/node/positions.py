"""The array element that a filter matched: what `$` in an update's path stands for.

It is the first element of the first array on the way of a condition that satisfies the condition all alone. Of several
conditions the one with the highest path counts. Negations and disjunctions point at nothing. All as in MongoDB.
"""

from __future__ import annotations

from operator import attrgetter

from docstore.bson import Value, array_from, document_from, get_path, values
from docstore.bson.walk import ARRAY, OBJECT
from docstore.query.compile import compile_filter
from docstore.query.tree import (
    And,
    Comparison,
    ElemMatchObject,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Mod,
    RegexMatch,
    TypeIs,
)

_CONDITIONS = (Comparison, In, RegexMatch, Exists, Mod, TypeIs, ElemMatchObject, ElemMatchValue)


def matched_position(tree: Filter, raw: bytes) -> str | None:
    """The position as it stands in a path, None when the filter points at no element."""
    children = tree.children if isinstance(tree, And) else (tree,)
    conditions = [child for child in children if isinstance(child, _CONDITIONS)]
    for condition in sorted(conditions, key=attrgetter("path"), reverse=True):
        found = _position(condition, condition.path, raw)
        if found is not None:
            return found
    return None


def _position(condition: Filter, path: str, raw: bytes) -> str | None:
    parts = path.split(".")
    predicate = compile_filter(condition)
    for length in range(1, len(parts) + 1):
        value = get_path(raw, ".".join(parts[:length]))
        if value is None:
            return None
        if value[0] == ARRAY:
            for position, element in enumerate(values(value[1])):
                if predicate.matches(_nested(parts[:length], (ARRAY, array_from([element])))):
                    return str(position)
            return None
    return None


def _nested(path: list[str], value: Value) -> bytes:
    """A document that holds the value at the path and nothing else."""
    code, data = value
    for name in reversed(path):
        code, data = OBJECT, document_from([(name, code, data)])
    return data
