"""Index keys of documents, by index kind.

A document always has the same keys, so that its entries can be found for removal.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.bson import ARRAY, INT64, NULL, OBJECT, Value, get_field
from docstore.collection.index.geo_keys import KeysOf, geometry_keys
from docstore.collection.index.spec import IndexSpec
from docstore.collection.index.text_keys import ARRAY_BESIDE_TEXT, text_entries
from docstore.errors import Code, CommandError
from docstore.kernel.keys.hashing import hashed_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.match.path_predicates import Exists
from docstore.kernel.match.predicate import Or, Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.geo.cell_keys import NOT_GEOMETRY, NOT_PAIRS
from docstore.query.plan.wildcard import WildcardPaths, compound_keys
from docstore.query.text.terms import NOT_A_LANGUAGE

ARRAY_UNDER_HASH = 16766

REFUSALS = (
    frozenset((Code.CannotIndexParallelArrays, ARRAY_UNDER_HASH, ARRAY_BESIDE_TEXT, NOT_GEOMETRY))
    | NOT_PAIRS
    | NOT_A_LANGUAGE
)
"""Error codes for documents that an index cannot hold."""


def keys_of(spec: IndexSpec, pattern: KeyPattern) -> KeysOf:
    """Return a function from a covered document to its keys."""
    if spec.geometry is not None:
        return geometry_keys(spec, spec.geometry)
    if spec.text is not None:
        return text_entries(spec, spec.text)
    if spec.wildcard is None and not spec.hashed:
        return pattern.marked_keys
    keys = _hashed_keys(spec, pattern) if spec.wildcard is None else _wildcard_keys(spec, spec.wildcard)
    collation = spec.collation
    if collation is None:
        return lambda raw: (*keys(raw), b"")
    return lambda raw: (*keys(collation.fold_document(raw)), b"")


def _wildcard_keys(spec: IndexSpec, paths: WildcardPaths) -> Callable[[bytes], tuple[list[bytes], int]]:
    if len(spec.fields) == 1:
        return paths.keys
    position = next(position for position, (_, direction) in enumerate(spec.fields) if direction == 0)
    leading_fields, trailing_fields = spec.fields[:position], spec.fields[position + 1 :]
    return compound_keys(
        paths, *(KeyPattern(list(fields)) if fields else None for fields in (leading_fields, trailing_fields))
    )


def _hashed_keys(spec: IndexSpec, pattern: KeyPattern) -> Callable[[bytes], tuple[list[bytes], int]]:
    return lambda raw: ([pattern.encode(hashed_members(spec, raw))], 0)


def coverage_of(spec: IndexSpec) -> Predicate | None:
    """Return the predicate of documents that the index holds; None: all."""
    if spec.partial is not None:
        return compile_filter(spec.partial)
    if spec.sparse and spec.over_values:
        return Or([Exists(path, True) for path, _ in spec.fields])
    return None


def hashed_members(spec: IndexSpec, raw: bytes) -> list[Value]:
    """Return the hashed or plain value of each field of a hashed index. Errors: 16766 for an array on a path."""
    return [_member(raw, path.split("."), direction == 0) for path, direction in spec.fields]


def _member(raw: bytes, names: list[str], hashed: bool) -> Value:
    value: Value | None = (OBJECT, raw)
    for depth, name in enumerate(names, 1):
        assert value is not None
        value = get_field(value[1], name) if value[0] == OBJECT else None
        if value is None:
            break
        if value[0] == ARRAY:
            raise CommandError(
                ARRAY_UNDER_HASH,
                f"hashed indexes do not currently support array values. Found array at path: {'.'.join(names[:depth])}",
            )
    if hashed:
        return hash_value(value)
    return (NULL, b"") if value is None else value


def hash_value(value: Value | None) -> Value:
    """Return the hash that a hashed index stores for a value."""
    return INT64, hashed_key(value).to_bytes(8, "little", signed=True)
