"""The order of values: by their bytes, or under a collation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docstore.bson.order import compare
from docstore.bson.walk import Value
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.folding import TextFolding
from docstore.query.value.collation import Collation


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order of values. `compare` returns a number below, equal to or above 0. Keys sort as their values compare, and
    equal values have equal keys.

    `fold` replaces strings by their keys before the comparison; None if values are compared as they are.
    """

    compare: Callable[[Value, Value], int]
    key: Callable[[Value], bytes]
    fold: TextFolding | None = None


BINARY = Ordering(compare, encode_key)
"""The order of stored keys."""


def ordering_of(collation: Collation | None) -> Ordering:
    """Return the order of values under a collation."""
    if collation is None:
        return BINARY
    fold = collation.fold

    def folded_compare(a: Value, b: Value) -> int:
        return compare(fold(a), fold(b))

    def folded_key(value: Value) -> bytes:
        return encode_key(fold(value))

    return Ordering(folded_compare, folded_key, fold)
