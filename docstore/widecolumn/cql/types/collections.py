"""Types with parameters, as one value: frozen lists, sets, maps and tuples.

Bytes: how many there are (4), then each as its length (4) and its bytes; a map's keys and values alternate; a tuple has
no number in front and a length of -1 for null. Sets and the keys of maps stand in the order of their type, once each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from docstore.widecolumn.cql.types.native import CqlType
from docstore.widecolumn.model.errors import MarshalError

_COUNT = struct.Struct(">i")


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
    [count] = _COUNT.unpack_from(data)
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


def _packed(parts: Sequence[bytes], count: int) -> bytes:
    return _COUNT.pack(count) + b"".join(_COUNT.pack(len(part)) + part for part in parts)


def _in_order(kind: CqlType, values: Iterable[bytes]) -> list[bytes]:
    """Without duplicates, in the order of their type; as bytes where it has none."""
    distinct = set(values)
    if kind.comparator is None:
        return sorted(distinct)
    return sorted(distinct, key=cmp_to_key(kind.comparator.compare))


def _shown(kind: CqlType, data: bytes) -> str:
    text = kind.format(data)
    if kind.name in ("ascii", "text", "timestamp", "date", "time", "inet"):
        return "'" + text.replace("'", "''") + "'"
    return text


@dataclass(frozen=True, slots=True)
class ListType:
    """Python form: list."""

    element: CqlType
    code = 0x20
    comparator = None

    @property
    def name(self) -> str:
        return f"list<{self.element.name}>"

    def validate(self, data: bytes) -> None:
        for part in _parts(data, 1):
            self.element.validate(part)

    def items(self, data: bytes) -> list[bytes]:
        return _parts(data, 1)

    def parse(self, data: bytes) -> list[Any]:
        return [self.element.parse(part) for part in _parts(data, 1)]

    def serialise(self, value: Any) -> bytes:
        parts = [self.element.serialise(item) for item in value]
        return _packed(parts, len(parts))

    def format(self, data: bytes) -> str:
        return "[" + ", ".join(_shown(self.element, part) for part in _parts(data, 1)) + "]"


@dataclass(frozen=True, slots=True)
class SetType:
    """Python form: list, in order."""

    element: CqlType
    code = 0x22
    comparator = None

    @property
    def name(self) -> str:
        return f"set<{self.element.name}>"

    def validate(self, data: bytes) -> None:
        for part in _parts(data, 1):
            self.element.validate(part)

    def items(self, data: bytes) -> list[bytes]:
        return _parts(data, 1)

    def parse(self, data: bytes) -> list[Any]:
        return [self.element.parse(part) for part in _parts(data, 1)]

    def serialise(self, value: Any) -> bytes:
        parts = _in_order(self.element, (self.element.serialise(item) for item in value))
        return _packed(parts, len(parts))

    def format(self, data: bytes) -> str:
        return "{" + ", ".join(_shown(self.element, part) for part in _parts(data, 1)) + "}"


@dataclass(frozen=True, slots=True)
class MapType:
    """Python form: dict, in the order of its keys."""

    key: CqlType
    value: CqlType
    code = 0x21
    comparator = None

    @property
    def name(self) -> str:
        return f"map<{self.key.name}, {self.value.name}>"

    def pairs(self, data: bytes) -> list[tuple[bytes, bytes]]:
        parts = _parts(data, 2)
        return list(zip(parts[::2], parts[1::2], strict=True))

    def validate(self, data: bytes) -> None:
        for key, value in self.pairs(data):
            self.key.validate(key)
            self.value.validate(value)

    def parse(self, data: bytes) -> dict[Any, Any]:
        return {self.key.parse(key): self.value.parse(value) for key, value in self.pairs(data)}

    def serialise(self, value: Any) -> bytes:
        pairs = {self.key.serialise(key): self.value.serialise(item) for key, item in value.items()}
        ordered = _in_order(self.key, pairs)
        return _packed([part for key in ordered for part in (key, pairs[key])], len(ordered))

    def format(self, data: bytes) -> str:
        pairs = (f"{_shown(self.key, key)}: {_shown(self.value, value)}" for key, value in self.pairs(data))
        return "{" + ", ".join(pairs) + "}"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Python form: tuple, None for null."""

    elements: tuple[CqlType, ...]
    code = 0x31
    comparator = None

    @property
    def name(self) -> str:
        return f"tuple<{', '.join(element.name for element in self.elements)}>"

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

    def parse(self, data: bytes) -> tuple[Any, ...]:
        return tuple(
            None if part is None else element.parse(part)
            for element, part in zip(self.elements, self.parts(data), strict=True)
        )

    def serialise(self, value: Any) -> bytes:
        packed = b""
        for element, item in zip(self.elements, value, strict=True):
            part = None if item is None else element.serialise(item)
            packed += _COUNT.pack(-1) if part is None else _COUNT.pack(len(part)) + part
        return packed

    def format(self, data: bytes) -> str:
        texts = (
            "null" if part is None else _shown(element, part)
            for element, part in zip(self.elements, self.parts(data), strict=True)
        )
        return "(" + ", ".join(texts) + ")"
