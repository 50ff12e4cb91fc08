"""Arrays as encoded values: a list of values takes ten times the memory of its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from docstore.bson.walk import Value, each_value, value_count


class PackedValues(Sequence[Value]):
    """The values of an array, decoded in each iteration; an access by index takes time linear in the index."""

    __slots__ = ("_count", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._count = value_count(raw)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Value]:
        return iter(each_value(self._raw))

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Value, ...]: ...
    def __getitem__(self, index: int | slice) -> Value | tuple[Value, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        at = range(self._count)[index]
        return next(islice(self, at, None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedValues) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(self._raw)
