"""Columns, super columns and rows as the documents of a reply."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from docstore.bson import documents_array
from docstore.bson.build import enclosed
from docstore.errors import Code, CommandError
from docstore.kernel.columns.encoding import EXPIRING
from docstore.widecolumn.model.column_families import ColumnFamily
from docstore.widecolumn.model.comparators import Comparator
from docstore.widecolumn.model.slices import Column, SuperColumn
from docstore.widecolumn.model.values import content_value, name_value, name_writer, partition_key_value

MAX_REPLY_BYTES = 32 * 1024 * 1024
_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_TIMESTAMP = b"\x12timestamp\0"
_VALUE = b"\x05value\0"


class ReplyForm:
    """The form of names and values in the replies of one request. `as_text`: bytes that are valid UTF-8 become
    strings.
    """

    def __init__(self, family: ColumnFamily, now: int, *, as_text: bool = False) -> None:
        self._family = family
        self._now = now
        self._as_text = as_text

    def columns(self, columns: Iterable[Column], comparator: Comparator) -> list[bytes]:
        """Return columns, in their order, as documents. `comparator`: of their names."""
        as_text = self._as_text
        documents: list[bytes] = []
        pack = _INT.pack
        named = name_writer(comparator, as_text=as_text)
        for name, record in columns:
            flags = record[0]
            value = record[17:] if flags & EXPIRING else record[9:]
            if as_text:
                value_code, value_data = content_value(value, as_text=True)
                value_field = bytes((value_code,)) + b"value\0" + value_data
            else:
                value_field = b"".join((_VALUE, pack(len(value)), b"\0", value))
            # Big-endian in records, little-endian in documents.
            stamp = record[8:0:-1]
            head = named(name)
            tail = self._ttl(record) if flags & EXPIRING else b"\0"
            size = 4 + len(head) + len(value_field) + 19 + len(tail)
            documents.append(b"".join((pack(size), head, value_field, _TIMESTAMP, stamp, tail)))
        return documents

    def _ttl(self, record: bytes) -> bytes:
        remaining_seconds = int.from_bytes(record[9:13], "big") - self._now
        return b"\x10ttl\0" + _INT.pack(remaining_seconds) + b"\0"

    def super_columns(self, entries: Iterable[SuperColumn]) -> list[bytes]:
        """Super columns with their columns."""
        comparator, subcomparator = self._family.comparator, self._family.subcomparator
        assert subcomparator is not None, "a Standard family has no super columns"
        documents: list[bytes] = []
        for name, columns in entries:
            code, data = name_value(comparator, name, as_text=self._as_text)
            inner = documents_array(self.columns(columns, subcomparator))
            documents.append(enclosed(b"".join((bytes((code,)), b"name\0", data, b"\x04columns\0", inner))))
        return documents

    def row(self, key: bytes, documents: Sequence[bytes], *, supers: bool) -> bytes:
        """`{key, columns}` or `{key, superColumns}`."""
        code, data = partition_key_value(key)
        return enclosed(bytes((code,)) + b"key\0" + data + array_field(documents, supers=supers))


def check_reply_size(size: int) -> None:
    """BSONObjectTooLarge for more than one reply can hold."""
    if size > MAX_REPLY_BYTES:
        raise CommandError(
            Code.BSONObjectTooLarge,
            f"the reply would have more than {MAX_REPLY_BYTES} bytes: ask for fewer columns and go on from the last",
        )


def array_field(documents: Sequence[bytes], *, supers: bool) -> bytes:
    """The encoded field `columns` or `superColumns`."""
    return (b"\x04superColumns\0" if supers else b"\x04columns\0") + documents_array(documents)


def long_field(name: bytes, number: int) -> bytes:
    """An encoded 64-bit field."""
    return b"\x12" + name + b"\0" + _LONG.pack(number)
