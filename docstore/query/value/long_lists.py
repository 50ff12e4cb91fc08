"""Iteration over long lists, and their sorting, during which other tasks may run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from docstore.bson.allowance import spend

_AT_ONCE = 8 * 1024
_PER_KEY = 8
_MANY = 256
_PER_MEMBER = 128
"""Units of work charged for each member."""

T = TypeVar("T")


def paced(members: Sequence[T]) -> Iterable[T]:
    """Return the members; a long list lets other tasks run in between."""
    return members if len(members) <= _MANY else _paced(members)


def _paced(members: Sequence[T]) -> Iterator[T]:
    for at in range(0, len(members), _MANY):
        spend(_MANY * _PER_MEMBER)
        yield from members[at : at + _MANY]


def sort_keys(keys: list[Any]) -> None:
    """Sort a list in place, in parts that are then merged pairwise. No other task may use the list."""
    count = len(keys)
    if count <= _AT_ONCE:
        keys.sort()
        return
    width = _AT_ONCE // 2
    while width < count:
        width *= 2
        for at in range(0, count, width):
            part = keys[at : at + width]
            part.sort()
            keys[at : at + width] = part
            spend(_PER_KEY * len(part))
