"""Types with parameters: lists, sets, maps and tuples.

The value and its bytes are the same whether a type is frozen or not; a column that is not frozen stores its elements
apart (`docstore.widecolumn.cql.schema.collection_cells`).
Bytes: how many there are (4), then each as its length (4) and its bytes; a map's keys and values alternate; a tuple has
no number in front and a length of -1 for null. Sets and the keys of maps stand in the order of their type, once each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import cycle, repeat
from typing import Any

from docstore.widecolumn.cql.types.native import CqlType
from docstore.widecolumn.model.errors import MarshalError

_COUNT = struct.Struct(">i")
MAX_COLLECTION_BYTES = 1024 * 1024
"""The maximal length of a collection, whose elements are read without yielding to other tasks."""


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    """(the part that begins there, where it ends); MarshalError."""
    if at + 4 > len(data):
        raise MarshalError("Not enough bytes to read a collection")
    [length] = _COUNT.unpack_from(data, at)
    end = at + 4 + max(length, 0)
    if end > len(data):
        raise MarshalError("Not enough bytes to read a collection")
    return (None if length < 0 else data[at + 4 : end]), end


def _parts(data: bytes, per_item: int) -> list[bytes]:
    """The parts of a counted collection. MarshalError."""
    if len(data) < 4:
        raise MarshalError("Not enough bytes to read a collection")
    _check_length(len(data))
    [count] = _COUNT.unpack_from(data)
    if count < 0:
        raise MarshalError(f"Invalid number of elements of a collection: {count}")
    parts: list[bytes] = []
    at = 4
    for _ in range(count * per_item):
        part, at = _read(data, at)
        if part is None:
            raise MarshalError("null is not supported inside collections")
        parts.append(part)
    if at != len(data):
        raise MarshalError("Unexpected extraneous bytes after the collection")
    return parts


def pack_parts(parts: Sequence[bytes], count: int) -> bytes:
    """Return the bytes of a collection of `count` elements, of any length."""
    return _COUNT.pack(count) + b"".join(_COUNT.pack(len(part)) + part for part in parts)


def _packed(parts: Sequence[bytes], count: int) -> bytes:
    data = pack_parts(parts, count)
    _check_length(len(data))
    return data


def _check_length(length: int) -> None:
    if length > MAX_COLLECTION_BYTES:
        raise MarshalError(f"A collection has at most {MAX_COLLECTION_BYTES} bytes here ({length})")


def in_order(kind: CqlType, values: Iterable[bytes]) -> list[bytes]:
    """Return the values without duplicates, in the order of their type."""
    distinct: list[bytes] = []
    comparator = kind.comparator
    key = comparator.encode if comparator is not None and comparator.ordered else cmp_to_key(kind.order)
    for value in sorted(values, key=key):
        if not distinct or kind.order(distinct[-1], value):
            distinct.append(value)
    return distinct


def _order_of_parts(kinds: Iterable[CqlType], first: Sequence[bytes | None], second: Sequence[bytes | None]) -> int:
    """Decide by the first parts that differ, null before all others, then by the number of parts."""
    for kind, part, other in zip(kinds, first, second, strict=False):
        order = (part is not None) - (other is not None) if part is None or other is None else kind.order(part, other)
        if order:
            return order
    return len(first) - len(second)


def _named(name: str, frozen: bool) -> str:
    return f"frozen<{name}>" if frozen else name


def _format_literal(kind: CqlType, data: bytes) -> str:
    text = kind.format(data)
    if kind.name in ("ascii", "text", "timestamp", "date", "time", "inet"):
        return "'" + text.replace("'", "''") + "'"
    return text


@dataclass(frozen=True, slots=True)
class ListType:
    """Python form: list."""

    element: CqlType
    frozen: bool = False
    code = 0x20
    comparator = None

    @property
    def name(self) -> str:
        return _named(f"list<{self.element.name}>", self.frozen)

    def validate(self, data: bytes) -> None:
        for part in _parts(data, 1):
            self.element.validate(part)

    def items(self, data: bytes) -> list[bytes]:
        return _parts(data, 1)

    def canonical(self, data: bytes) -> bytes:
        return self.packed([self.element.canonical(part) for part in _parts(data, 1)])

    def packed(self, parts: Sequence[bytes]) -> bytes:
        """The bytes of a list of these elements."""
        return _packed(parts, len(parts))

    def order(self, first: bytes, second: bytes) -> int:
        return _order_of_parts(repeat(self.element), _parts(first, 1), _parts(second, 1))

    def parse(self, data: bytes) -> list[Any]:
        return [self.element.parse(part) for part in _parts(data, 1)]

    def serialise(self, value: Any) -> bytes:
        return self.packed([self.element.serialise(item) for item in value])

    def format(self, data: bytes) -> str:
        return "[" + ", ".join(_format_literal(self.element, part) for part in _parts(data, 1)) + "]"


@dataclass(frozen=True, slots=True)
class SetType:
    """Python form: list, in order."""

    element: CqlType
    frozen: bool = False
    code = 0x22
    comparator = None

    @property
    def name(self) -> str:
        return _named(f"set<{self.element.name}>", self.frozen)

    def validate(self, data: bytes) -> None:
        for part in _parts(data, 1):
            self.element.validate(part)

    def items(self, data: bytes) -> list[bytes]:
        return _parts(data, 1)

    def canonical(self, data: bytes) -> bytes:
        return self.packed([self.element.canonical(part) for part in _parts(data, 1)])

    def packed(self, parts: Sequence[bytes]) -> bytes:
        """The bytes of a set of these elements."""
        distinct = in_order(self.element, parts)
        return _packed(distinct, len(distinct))

    def order(self, first: bytes, second: bytes) -> int:
        return _order_of_parts(repeat(self.element), _parts(first, 1), _parts(second, 1))

    def parse(self, data: bytes) -> list[Any]:
        return [self.element.parse(part) for part in _parts(data, 1)]

    def serialise(self, value: Any) -> bytes:
        return self.packed([self.element.serialise(item) for item in value])

    def format(self, data: bytes) -> str:
        return "{" + ", ".join(_format_literal(self.element, part) for part in _parts(data, 1)) + "}"


@dataclass(frozen=True, slots=True)
class MapType:
    """Python form: dict, in the order of its keys."""

    key: CqlType
    value: CqlType
    frozen: bool = False
    code = 0x21
    comparator = None

    @property
    def name(self) -> str:
        return _named(f"map<{self.key.name}, {self.value.name}>", self.frozen)

    def pairs(self, data: bytes) -> list[tuple[bytes, bytes]]:
        parts = _parts(data, 2)
        return list(zip(parts[::2], parts[1::2], strict=True))

    def validate(self, data: bytes) -> None:
        for key, value in self.pairs(data):
            self.key.validate(key)
            self.value.validate(value)

    def canonical(self, data: bytes) -> bytes:
        return self.packed({self.key.canonical(key): self.value.canonical(value) for key, value in self.pairs(data)})

    def packed(self, pairs: Mapping[bytes, bytes]) -> bytes:
        """The bytes of a map of these keys and values."""
        ordered = in_order(self.key, pairs)
        return _packed([part for key in ordered for part in (key, pairs[key])], len(ordered))

    def order(self, first: bytes, second: bytes) -> int:
        return _order_of_parts(cycle((self.key, self.value)), _parts(first, 2), _parts(second, 2))

    def parse(self, data: bytes) -> dict[Any, Any]:
        return {self.key.parse(key): self.value.parse(value) for key, value in self.pairs(data)}

    def serialise(self, value: Any) -> bytes:
        return self.packed({self.key.serialise(key): self.value.serialise(item) for key, item in value.items()})

    def format(self, data: bytes) -> str:
        pairs = (
            f"{_format_literal(self.key, key)}: {_format_literal(self.value, value)}" for key, value in self.pairs(data)
        )
        return "{" + ", ".join(pairs) + "}"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Python form: tuple, None for null."""

    elements: tuple[CqlType, ...]
    frozen: bool = False
    code = 0x31
    comparator = None

    @property
    def name(self) -> str:
        return _named(f"tuple<{', '.join(element.name for element in self.elements)}>", self.frozen)

    def parts(self, data: bytes) -> list[bytes | None]:
        """Return one part for each element; missing ones at the end are null. MarshalError."""
        parts: list[bytes | None] = []
        at = 0
        while at < len(data) and len(parts) < len(self.elements):
            part, at = _read(data, at)
            parts.append(part)
        if at != len(data):
            raise MarshalError("Invalid remaining data after end of tuple value")
        return parts + [None] * (len(self.elements) - len(parts))

    def validate(self, data: bytes) -> None:
        for element, part in zip(self.elements, self.parts(data), strict=True):
            if part is not None:
                element.validate(part)

    def canonical(self, data: bytes) -> bytes:
        parts = zip(self.elements, self.parts(data), strict=True)
        return self.packed([None if part is None else element.canonical(part) for element, part in parts])

    def packed(self, parts: Iterable[bytes | None]) -> bytes:
        """The bytes of a tuple of these elements."""
        return b"".join(_COUNT.pack(-1) if part is None else _COUNT.pack(len(part)) + part for part in parts)

    def order(self, first: bytes, second: bytes) -> int:
        return _order_of_parts(self.elements, self.parts(first), self.parts(second))

    def parse(self, data: bytes) -> tuple[Any, ...]:
        return tuple(
            None if part is None else element.parse(part)
            for element, part in zip(self.elements, self.parts(data), strict=True)
        )

    def serialise(self, value: Any) -> bytes:
        items = zip(self.elements, value, strict=True)
        return self.packed([None if item is None else element.serialise(item) for element, item in items])

    def format(self, data: bytes) -> str:
        texts = (
            "null" if part is None else _format_literal(element, part)
            for element, part in zip(self.elements, self.parts(data), strict=True)
        )
        return "(" + ", ".join(texts) + ")"


CollectionType = ListType | SetType | MapType


def collection_of_cells(kind: CqlType) -> CollectionType | None:
    """Return a collection type that is not frozen, whose elements are stored apart; None for any other type."""
    return kind if isinstance(kind, CollectionType) and not kind.frozen else None
