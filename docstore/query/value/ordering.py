"""How values compare: by their bytes, or by what a collation makes of them."""

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
    """`compare` gives less than, equal to or greater than 0; keys sort as their values compare, equal ones are equal.

    `fold` puts what is compared in the place of a value; None where values are compared as they are.
    """

    compare: Callable[[Value, Value], int]
    key: Callable[[Value], bytes]
    fold: TextFolding | None = None


BINARY = Ordering(compare, encode_key)
"""The order of stored keys."""


def ordering_of(collation: Collation | None) -> Ordering:
    """The order of values under a collation."""
    if collation is None:
        return BINARY
    fold = collation.fold

    def folded_compare(a: Value, b: Value) -> int:
        return compare(fold(a), fold(b))

    def folded_key(value: Value) -> bytes:
        return encode_key(fold(value))

    return Ordering(folded_compare, folded_key, fold)
