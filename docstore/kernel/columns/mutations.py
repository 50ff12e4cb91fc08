"""Mutations of rows as bytes: parses the plain ones of a batch, and merges them into the stored records.

An entry is (path, record, length of the path's part that names the counted unit), see
`docstore.widecolumn.model.mutations`. `docstore.widecolumn.model` handles all that is not plain: a mutation with other
fields, a name or a value that needs validation, and two records with the same timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import cython

from docstore.bson.walk import Value
from docstore.kernel.columns.encoding import ColumnForm
from docstore.kernel.limits import MAX_COLUMN_KEY_BYTES

if not cython.compiled:
    from docstore.bson.walk import INT64, OBJECT, STRING, document_stop, name_end, part, same_bytes, value_end
    from docstore.kernel.columns.encoding import (
        ESTIMATE,
        TOMBSTONE,
        WHOLE,
        integer_in,
        plain_bytes,
        plain_record,
        plain_row,
        timestamp_order,
    )
    from docstore.kernel.keys.writer import KeyWriter

_COLUMNS: bytes = b"\x20"

_STATISTICS: bytes = b"\x04"
_out: KeyWriter = KeyWriter()

Entry = tuple[bytes, bytes, int]
Rows = dict[tuple[bytes, bytes], dict[bytes, Any]]


def take_mutations(
    mutations: list[bytes],
    start: int,
    stop: int,
    forms: dict[bytes, ColumnForm],
    rows: Rows,
    make: Callable[[bytes, bytes, int], Any],
    merge: Callable[[bytes, bytes], bytes],
    stamp: bytes,
    most: int,
) -> int:
    """Gather plain mutations from `start` on by row; return the position of the first that is not plain, or `stop`.

    A plain one is `{key, columnFamily, insert: {name, value, timestamp?}}`, the fields in any order, of a family that
    `forms` has by the bytes of its name. `rows` are by family and row key; each row, made by `make`, has entries by
    path, and entries of one path are merged. `stamp` is the timestamp, in the form of records, of inserts without one.
    `most` is the greatest size of a value in bytes.
    """
    position: cython.Py_ssize_t = start
    limit: cython.Py_ssize_t = stop
    largest: cython.Py_ssize_t = most
    plain: Plain = Plain()
    form: ColumnForm | None
    row: dict[bytes, Any] | None
    path: bytes
    record: bytes | None
    while position < limit:
        if not plain.read(mutations[position]):
            break
        form = forms.get(plain.family)
        if form is None:
            break
        encoded: bytes | None = form.encode(plain.name_code, plain.name)
        if encoded is None:
            break
        record = plain_record(plain.value_code, plain.value, stamp if plain.stamp is None else plain.stamp, largest)
        if record is None:
            break
        row = rows.get((plain.family, plain.key))
        if row is None:
            row = rows[plain.family, plain.key] = {}
        path = _COLUMNS + encoded
        standing: Any = row.get(path)
        if standing is not None:
            record = merged(standing[1], record, merge)
        row[path] = make(path, record, len(path))
        position += 1
    return position


class Plain:
    """A parsed mutation."""

    family: bytes
    key: bytes
    name: bytes
    value: bytes
    name_code: cython.int
    value_code: cython.int
    stamp: bytes | None

    def read(self, raw: bytes) -> cython.bint:
        """Parse a mutation; False if it is not plain."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        fields_read: cython.int = 0
        key: bytes | None
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            if _is(raw, at + 1, named, b"key") and not fields_read & 1:
                fields_read |= 1
                key = plain_bytes(raw[at], part(raw, named + 1, end))
                if key is None or len(key) == 0 or len(key) > MAX_COLUMN_KEY_BYTES:
                    return False
                self.key = key
            elif _is(raw, at + 1, named, b"columnFamily") and not fields_read & 2 and raw[at] == STRING:
                fields_read |= 2
                self.family = part(raw, named + 1, end)
            elif _is(raw, at + 1, named, b"insert") and not fields_read & 4 and raw[at] == OBJECT:
                fields_read |= 4
                if not self._read_insert(raw, named + 1, end):
                    return False
            else:
                return False
            at = end
        return fields_read == 7

    def _read_insert(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        fields_read: cython.int = 0
        self.stamp = None
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            if _is(raw, at + 1, named, b"name") and not fields_read & 1:
                fields_read |= 1
                self.name_code = raw[at]
                self.name = part(raw, named + 1, end)
            elif _is(raw, at + 1, named, b"value") and not fields_read & 2:
                fields_read |= 2
                self.value_code = raw[at]
                self.value = part(raw, named + 1, end)
            elif _is(raw, at + 1, named, b"timestamp") and self.stamp is None and raw[at] == INT64:
                self.stamp = part(raw, named + 1, end)[::-1]
            else:
                return False
            at = end
        return fields_read == 3


@cython.ccall
def merged(standing: bytes, record: bytes, merge: Callable[[bytes, bytes], bytes]) -> bytes:
    """Return the record after a merge; `merge` decides between equal timestamps."""
    order: cython.int
    if standing == record:
        return standing
    order = 0 if record[0] & WHOLE else timestamp_order(standing, record)
    if order == 0:
        return merge(standing, record)
    return standing if order > 0 else record


def plain_insert(
    form: ColumnForm, key: Value, name: Value, value: Value, stamp: bytes, most: int
) -> tuple[bytes, bytes, bytes] | None:
    """Return (the row's part of keys, the column's path, its record) of an insert; None if it is not plain."""
    key_code: cython.int = key[0]
    name_code: cython.int = name[0]
    value_code: cython.int = value[0]
    row: bytes | None = plain_row(key_code, key[1])
    encoded: bytes | None = form.encode(name_code, name[1])
    record: bytes | None = plain_record(value_code, value[1], stamp, most)
    if row is None or encoded is None or record is None:
        return None
    return row, _COLUMNS + encoded, record


class RowUpdate:
    """The writes of one row: `keys` holds the new record of each key, `previous` the stored ones.

    - `added` is the growth of the row in records, `size` in bytes of records and of keys after the ident.
    - `rows` and `row_bytes` are the row's new statistics, `rows_before` and `bytes_before` the old ones; all are 0 if
      the statistics do not change.
    - `prefix` begins the keys of the column family, and `row` follows it in keys of the row.
    - Stored records are read from `pending`, then by `get(family, key)`.
    """

    keys: dict[bytes, bytes | None]
    previous: list[tuple[bytes, bytes | None]]
    added: cython.Py_ssize_t
    size: cython.Py_ssize_t
    rows: cython.longlong
    row_bytes: cython.longlong
    rows_before: cython.longlong
    bytes_before: cython.longlong
    _prefix: bytes
    _row_size: cython.Py_ssize_t
    _pending: dict[bytes, bytes | None]
    _get: Callable[[Any, bytes], bytes | None]
    _family: object

    def __init__(
        self,
        prefix: bytes,
        row: bytes,
        pending: dict[bytes, bytes | None],
        get: Callable[[Any, bytes], bytes | None],
        family: object,
    ) -> None:
        self.keys = {}
        self.previous = []
        self.added = 0
        self.size = 0
        self.rows = self.row_bytes = self.rows_before = self.bytes_before = 0
        self._prefix = prefix + row
        self._row_size = len(row)
        self._pending = pending
        self._get = get
        self._family = family

    def merge(
        self, entries: Iterable[Entry], merge: Callable[[bytes, bytes], bytes], is_named: Callable[[bytes], bool]
    ) -> None:
        """Merge the entries into the stored records. `is_named` returns whether a record exists below a name of a path.
        It is called only if the row has statistics, as every row with data has.
        """
        visited_names: set[bytes] = set()
        statistics: bytes | None = self._standing(self._prefix + _STATISTICS)
        size: cython.Py_ssize_t = 0
        rows: cython.Py_ssize_t = 0
        named: cython.Py_ssize_t
        entry: Any
        path: bytes
        record: bytes
        key: bytes
        name: bytes
        after: bytes
        standing: bytes | None
        for entry in entries:
            path = entry[0]
            record = entry[1]
            named = entry[2]
            key = self._prefix + path
            standing = self.keys.get(key)
            if standing is None:
                standing = self._standing(key)
            if standing is None:
                self.keys[key] = record
                self.previous.append((key, None))
                self.added += 1
                size += len(path) + len(record)
                if named == len(path):
                    rows += 0 if record[0] & TOMBSTONE else 1
                elif named:
                    name = part(path, 0, named)
                    if name not in visited_names:
                        visited_names.add(name)
                        if not record[0] & TOMBSTONE and (statistics is None or not is_named(self._prefix + name)):
                            rows += 1
                continue
            if 0 < named < len(path):
                visited_names.add(part(path, 0, named))
            after = merged(standing, record, merge)
            if after == standing:
                continue
            self.keys[key] = after
            self.previous.append((key, standing))
            size += len(after) - len(standing)
            if named == len(path):
                rows += (standing[0] & TOMBSTONE) - (after[0] & TOMBSTONE)
        self._count(statistics, size, rows, -1)

    def remove(self, doomed: Iterable[tuple[bytes, bytes]], rows: int | None) -> None:
        """Remove each (path, record) if this record is stored. `rows`: the number remaining, if it is known."""
        size: cython.Py_ssize_t = 0
        path: bytes
        record: bytes
        for path, record in doomed:
            key: bytes = self._prefix + path
            if key not in self.keys and self._standing(key) == record:
                self.keys[key] = None
                self.previous.append((key, record))
                self.added -= 1
                size -= len(path) + len(record)
        self._count(self._standing(self._prefix + _STATISTICS), size, 0, -1 if rows is None else rows)

    def store(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Write (path, record) unchanged, statistics too, if no record is stored yet."""
        path: bytes
        record: bytes
        for path, record in entries:
            self.keys[self._prefix + path] = record
            if not record[0] & ESTIMATE:
                self.added += 1
                self.size += self._row_size + len(path) + len(record)

    @cython.cfunc
    def _standing(self, key: bytes) -> bytes | None:
        if key in self._pending:
            return self._pending[key]
        return self._get(self._family, key)

    def _count(
        self, record: bytes | None, size: cython.Py_ssize_t, rows: cython.longlong, row_count: cython.longlong
    ) -> cython.int:
        """Change the row's statistics, which `record` holds: by `rows`, or to `row_count` if that is not negative."""
        key: bytes
        if size == 0 and rows == 0 and row_count < 0:
            return 0
        key = self._prefix + _STATISTICS
        if record is not None:
            self.rows_before = integer_in(record, 1, 8)
            self.bytes_before = integer_in(record, 9, 8)
        self.rows = row_count if row_count >= 0 else max(self.rows_before + rows, 0)
        self.row_bytes = self.bytes_before + size
        self.size = size + self.added * self._row_size
        if size == 0 and self.rows == self.rows_before:
            return 0
        _out.clear()
        _out.put(ESTIMATE)
        _out.put_number(self.rows, 8)
        _out.put_number(self.row_bytes, 8)
        self.keys[key] = _out.contents() if self.row_bytes else None
        self.previous.append((key, record))
        return 0


@cython.exceptval(check=False)
def _is(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, name: bytes) -> cython.bint:
    """True if the name at [at, end) is `name`."""
    return end - at == len(name) and same_bytes(raw, at, name, 0, end - at)
