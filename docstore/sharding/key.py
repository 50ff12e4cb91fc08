"""Shard keys, and the bounds that chunks have in their space.

A bound is a BSON document with the key's fields in order (dotted paths are plain names there) and, beside it, its
encoding: bytes whose order is the order of the keys. Only the encoding is ever compared.

The upper end of the key space ({field: MaxKey} in every field) is encoded above every key, so the last chunk holds
even a document whose key is MaxKey; all other ranges are half-open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, elements, from_python, get_field, get_path
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.value.notation import display_document

_MISSING = (0x0A, b"")
_ABOVE_ALL = b"\xff"


class Bound(NamedTuple):
    """One end of a range of shard keys: the document as it was given, and its encoded key."""

    raw: bytes
    key: bytes

    def document(self) -> RawBSONDocument:
        """Return the bound for a command or record, with the types of its fields unchanged."""
        return RawBSONDocument(self.raw)

    def __str__(self) -> str:
        return display_document(self.raw)


class KeyRange(NamedTuple):
    """The keys in `[min, max)`."""

    min: Bound
    max: Bound

    def holds(self, key: bytes) -> bool:
        """True if an encoded key is in the range."""
        return self.min.key <= key < self.max.key

    def overlaps(self, other: KeyRange) -> bool:
        return self.min.key < other.max.key and other.min.key < self.max.key

    def same(self, other: KeyRange) -> bool:
        """True if both ranges hold the same keys, however their bounds are spelled."""
        return self.min.key == other.min.key and self.max.key == other.max.key

    def __str__(self) -> str:
        return f"[{self.min}, {self.max})"


class ShardKey:
    """The fields by which a collection is sharded, e.g. `ShardKey(("user", "day"))`; every field ascending."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        assert fields
        self.fields = fields
        self.pattern = KeyPattern([(field, 1) for field in fields])
        self._extract = self.pattern.shard_key
        # As documents inside others: alone, one would have its `_id` put first.
        _, lowest = from_python(dict.fromkeys(fields, MinKey()))
        _, highest = from_python(dict.fromkeys(fields, MaxKey()))
        self._highest = b"".join(_encoded_values(highest))
        self.min = Bound(lowest, b"".join(_encoded_values(lowest)))
        self.max = Bound(highest, self._highest + _ABOVE_ALL)

    @classmethod
    def parse(cls, pattern: Mapping[str, Any]) -> ShardKey:
        """From `{field: 1, ...}`. BadValue for an empty pattern, a hashed or descending field, or an unusable name."""
        for field, direction in pattern.items():
            if direction == "hashed":
                raise CommandError(Code.NotImplemented, "hashed shard keys are not supported: shard by range")
            if isinstance(direction, bool) or not isinstance(direction, int | float) or direction != 1:
                raise CommandError(Code.BadValue, f"Shard key {dict(pattern)} must have 1 as the value of every field")
            if not field or field.startswith("$") or "" in field.split("."):
                raise CommandError(Code.BadValue, f"Shard key {dict(pattern)} has an unusable field name")
        if not pattern:
            raise CommandError(Code.BadValue, "Shard key pattern is empty")
        return cls(tuple(pattern))

    def document(self) -> dict[str, int]:
        """`{field: 1, ...}`"""
        return dict.fromkeys(self.fields, 1)

    def key_of(self, document: bytes) -> bytes:
        """The encoded key of a stored document; a missing field counts as null. BadValue (through the kernel) for
        arrays."""
        encoded: bytes = self._extract(document)
        return encoded

    def bound_of(self, document: bytes) -> Bound:
        """The bound at a stored document's key."""
        values = [(field, get_path(document, field) or _MISSING) for field in self.fields]
        return Bound(document_from([(field, code, data) for field, (code, data) in values]), self.key_of(document))

    def bound(self, raw: bytes) -> Bound:
        """A bound as commands and records carry it. BadValue unless it has exactly the key's fields in order."""
        fields = elements(raw)
        if tuple([name for name, _, _ in fields]) != self.fields:
            raise CommandError(
                Code.BadValue,
                f"bound {display_document(raw)} does not have the fields of the shard key {self}",
            )
        encoded = b"".join([encode_key((code, data)) for _, code, data in fields])
        return Bound(raw, self.max.key if encoded == self._highest else encoded)

    def prefix_bound(self, raw: bytes) -> Bound:
        """A bound that may lack the last fields: they are taken as MinKey."""
        fields = elements(raw)
        missing = [(field, 0xFF, b"") for field in self.fields[len(fields) :]]
        return self.bound(document_from([*fields, *missing]))

    def range(self, low: bytes, high: bytes) -> KeyRange:
        """`[low, high)` from two raw bounds; BadValue when it is empty."""
        bounds = KeyRange(self.bound(low), self.bound(high))
        if bounds.min.key >= bounds.max.key:
            raise CommandError(Code.BadValue, f"the range {bounds} is empty")
        return bounds

    @property
    def everything(self) -> KeyRange:
        return KeyRange(self.min, self.max)

    def is_prefix_of(self, fields: tuple[tuple[str, object], ...]) -> bool:
        """True if an index with these (path, direction) fields can serve the key: it starts with the key's fields."""
        return fields[: len(self.fields)] == tuple((field, 1) for field in self.fields)

    def __str__(self) -> str:
        return display_document(from_python(self.document())[1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardKey) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)


def _encoded_values(raw: bytes) -> Iterator[bytes]:
    for _, code, data in elements(raw):
        yield encode_key((code, data))


def raw_field(raw: bytes, name: str) -> bytes:
    """The embedded document `name` of a raw document; BadValue when it is absent or not a document."""
    value = get_field(raw, name)
    if value is None or value[0] != 0x03:
        raise CommandError(Code.BadValue, f"field '{name}' must be a document")
    return value[1]
