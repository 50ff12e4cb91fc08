"""Covered queries: reads field values back from index entries.

A key says less than its value: 1, 1.0 and NumberLong(1) share their bytes, and a missing field has the key of null. The
entry's value has the rest, as marks: a byte for each field, without trailing 0s. The format on disk:

    00  the natural type: int32 for an integer that fits, else int64, else double; string; null is null
    80  there is no field, at the top level of the document
    81  the double -0.0
    else the type byte of the value

`OPAQUE` stands for all marks of an entry whose values cannot be read back: objects, decimals, code with scope, unusual
NaNs, a missing field below the top level. Such an entry needs its document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import pack, unpack

import cython

from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.scan.fetch import Examined

if not cython.compiled:
    from docstore.bson.order import (
        CLASS_BINARY,
        CLASS_BOOL,
        CLASS_CODE,
        CLASS_DATE,
        CLASS_DB_POINTER,
        CLASS_MAX_KEY,
        CLASS_MIN_KEY,
        CLASS_NULL,
        CLASS_OBJECT_ID,
        CLASS_REGEX,
        CLASS_STRING,
        CLASS_TIMESTAMP,
        CLASS_UNDEFINED,
    )
    from docstore.bson.walk import (
        BINARY,
        BOOL,
        CODE,
        CODE_WITH_SCOPE,
        DATE,
        DB_POINTER,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        MAX_KEY,
        MIN_KEY,
        NULL,
        OBJECT,
        OBJECT_ID,
        REGEX,
        STRING,
        SYMBOL,
        TIMESTAMP,
        UNDEFINED,
        bits_of,
        double_at,
        find,
        int64_at,
    )

    _NAN = 0x28
    _NEGATIVE = 0x2C
    _ZERO = 0x30
    _TRUE = 0x69
    ABSENT_MARK = 0x80
    MINUS_ZERO_MARK = 0x81
    OPAQUE_MARK = 0xFF

OPAQUE = b"\xff"
_ID_BYTES: cython.Py_ssize_t = 8
_NAN_BITS: cython.ulonglong = 0x7FF8000000000000
_SIGN: cython.ulonglong = 0x8000000000000000
_TWO_TO_63: cython.double = 9223372036854775808.0


def mark_of(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.int:
    """Return the mark of a value; OPAQUE_MARK if the value cannot be read back."""
    if code == INT64:
        return INT64 if -0x80000000 <= int64_at(raw, at) <= 0x7FFFFFFF else 0
    if code == DOUBLE:
        return _double_mark(double_at(raw, at))
    if code == SYMBOL:
        return SYMBOL
    if code in (OBJECT, DECIMAL, CODE_WITH_SCOPE):
        return OPAQUE_MARK
    return 0


def _double_mark(number: cython.double) -> cython.int:
    if number != number:
        return 0 if bits_of(number) == _NAN_BITS else OPAQUE_MARK
    if number == 0.0:
        return MINUS_ZERO_MARK if bits_of(number) else DOUBLE
    return DOUBLE if _is_whole(number) else 0


@cython.exceptval(check=False)
def _is_whole(number: cython.double) -> cython.bint:
    """True if an int64 equals the double."""
    integer: cython.longlong
    if not -_TWO_TO_63 <= number < _TWO_TO_63:
        return False
    integer = cython.cast(cython.longlong, number) if cython.compiled else int(number)
    return integer == number


@cython.ccall
def identity_marks(raw: bytes) -> bytes:
    """Return the marks of the entry of the document's `_id`, which must exist."""
    at: cython.Py_ssize_t = find(raw, 0, len(raw), b"_id")
    assert at >= 0, "a stored document has an _id"
    mark: cython.int = mark_of(raw[at], raw, at + 5)
    return b"" if mark == 0 else mark.to_bytes(1, "big")


class Covering:
    """An iterator over documents made of the entries of an index.

    The documents have the fields of the index, in its order; a field with an array in it has one of its elements.
    `items` are the index's (key, value) pairs, `paths` and `descending` its fields. `is_id`: it has the form of the
    `_id` index, whose values end in the record id. `seen`: the record ids yielded so far, if later entries of a
    document are to be skipped. An opaque entry yields the whole document, by `get` of `prefix` and its record id; a
    deleted one is skipped.
    """

    _items: Iterator[tuple[bytes, bytes]]
    _names: list[bytes]
    _masks: list[int]
    _tree: list[tuple[bytes, object]]
    _flat: cython.bint
    _is_id: cython.bint
    _skipped: cython.Py_ssize_t
    _get: Callable[[bytes], bytes | None]
    _prefix: bytes
    _examined: Examined
    _out: KeyWriter
    _visited_ids: set[bytes] | None

    def __init__(
        self,
        items: Iterator[tuple[bytes, bytes]],
        fields: Sequence[tuple[str, int]],
        skipped: int,
        is_id: bool,
        get: Callable[[bytes], bytes | None],
        prefix: bytes,
        examined: Examined,
        visited_ids: set[bytes] | None = None,
    ) -> None:
        self._visited_ids = visited_ids
        self._items = items
        paths = [path.encode().split(b".") for path, _ in fields]
        self._names = [path[len(path) - 1] + b"\0" for path in paths]
        self._masks = [0xFF if direction < 0 else 0 for _, direction in fields]
        self._tree = _tree(paths)
        self._flat = all(len(path) == 1 for path in paths)
        self._skipped = skipped
        self._is_id = is_id
        self._get = get
        self._prefix = prefix
        self._examined = examined
        self._out = KeyWriter()

    def __iter__(self) -> Covering:
        return self

    def __next__(self) -> bytes:
        pair: tuple[bytes, bytes]
        key: bytes
        marks: bytes
        rid: bytes
        raw: bytes | None
        size: cython.Py_ssize_t
        while True:
            pair = next(self._items)
            key = pair[0]
            marks = pair[1]
            self._examined.keys += 1
            if self._is_id:
                size = len(marks) - _ID_BYTES
                key, marks = key + marks[size:], marks[:size]
            if self._visited_ids is not None:
                rid = key[len(key) - _ID_BYTES :]
                if rid in self._visited_ids:
                    continue
                self._visited_ids.add(rid)
            if marks != OPAQUE:
                return self.document_of(key, marks)
            raw = self._get(self._prefix + key[len(key) - _ID_BYTES :])
            if raw is not None:
                self._examined.documents += 1
                return raw

    @cython.cfunc
    def document_of(self, key: bytes, marks: bytes) -> bytes:
        """Return the document that an entry encodes; the entry must not be opaque."""
        return self._flat_document(key, marks) if self._flat else self._nested_document(key, marks)

    @cython.cfunc
    def _flat_document(self, key: bytes, marks: bytes) -> bytes:
        at: cython.Py_ssize_t = self._skipped
        marked: cython.Py_ssize_t = len(marks)
        position: cython.Py_ssize_t
        mark: cython.int
        mask: cython.int
        name: bytes
        out: KeyWriter = self._out
        out.clear()
        out.put_number(0, 4)
        for position in range(len(self._names)):
            mark = marks[position] if position < marked else 0
            if mark == ABSENT_MARK:
                at += 1
                continue
            name = self._names[position]
            mask = self._masks[position]
            at = append_element(out, name, key, at, mask, mark)
        out.put(0)
        out.set_little(0, out.size, 4)
        return out.contents()

    @cython.cfunc
    def _nested_document(self, key: bytes, marks: bytes) -> bytes:
        at: cython.Py_ssize_t = self._skipped
        position: cython.Py_ssize_t
        parts: list[bytes] = []
        for position in range(len(self._names)):
            mark = marks[position] if position < len(marks) else 0
            self._out.clear()
            if mark == ABSENT_MARK:
                at += 1
            else:
                at = append_element(self._out, self._names[position], key, at, self._masks[position], mark)
            parts.append(self._out.contents())
        return _assembled(self._tree, parts)


def _tree(paths: list[list[bytes]]) -> list[tuple[bytes, object]]:
    """Return the names of a level in order, each with its position among the paths or with the level below it."""
    root: dict[bytes, object] = {}
    for position, path in enumerate(paths):
        level = root
        last = len(path) - 1
        for name in path[:last]:
            level = level.setdefault(name, {})  # type: ignore[assignment]
        level[path[last]] = position
    return _listed(root)


def _listed(level: dict[bytes, object]) -> list[tuple[bytes, object]]:
    return [(name, _listed(below) if isinstance(below, dict) else below) for name, below in level.items()]


def _assembled(level: list[tuple[bytes, object]], parts: list[bytes]) -> bytes:
    fields: list[bytes] = []
    for name, below in level:
        if isinstance(below, list):
            fields.append(b"\x03" + name + b"\0" + _assembled(below, parts))
        else:
            fields.append(parts[below])  # type: ignore[call-overload]
    body = b"".join(fields)
    return (len(body) + 5).to_bytes(4, "little") + body + b"\0"


def append_element(
    out: KeyWriter, name: bytes, key: bytes, at: cython.Py_ssize_t, mask: cython.int, mark: cython.int
) -> cython.Py_ssize_t:
    """Append type, `name` (with its NUL) and the value whose key is at `at`; return the end of that key.

    Each byte of the key was inverted with `mask`, 0 or 0xff.
    """
    kind: cython.int = key[at] ^ mask
    slot: cython.Py_ssize_t = out.size
    at += 1
    out.put(0)
    out.put_bytes(name)
    if _NAN <= kind < CLASS_STRING:
        return _append_number(out, slot, key, at, mask, kind, mark)
    if kind == CLASS_STRING:
        out.set_little(slot, SYMBOL if mark == SYMBOL else STRING, 1)
        return _append_string(out, key, at, mask)
    if kind == CLASS_OBJECT_ID:
        out.set_little(slot, OBJECT_ID, 1)
        return _append_bytes(out, key, at, 12, mask)
    if kind in (CLASS_BOOL, _TRUE):
        out.set_little(slot, BOOL, 1)
        out.put(kind - CLASS_BOOL)
        return at
    if kind in (CLASS_DATE, CLASS_TIMESTAMP):
        out.set_little(slot, DATE if kind == CLASS_DATE else TIMESTAMP, 1)
        out.put_little(_number_at(key, at, 8, mask) ^ (_SIGN if kind == CLASS_DATE else 0), 8)
        return at + 8
    return _append_rare(out, slot, key, at, mask, kind)


def _append_rare(
    out: KeyWriter, slot: cython.Py_ssize_t, key: bytes, at: cython.Py_ssize_t, mask: cython.int, kind: cython.int
) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t
    if kind == CLASS_CODE:
        out.set_little(slot, CODE, 1)
        return _append_string(out, key, at, mask)
    if kind == CLASS_REGEX:
        out.set_little(slot, REGEX, 1)
        at = _append_text(out, key, at, mask)
        return _append_text(out, key, at, mask)
    if kind == CLASS_BINARY:
        out.set_little(slot, BINARY, 1)
        size = _number_at(key, at, 4, mask)
        out.put_little(size, 4)
        return _append_bytes(out, key, at + 4, size + 1, mask)
    if kind == CLASS_DB_POINTER:
        out.set_little(slot, DB_POINTER, 1)
        size = _number_at(key, at, 4, mask)
        return _append_bytes(out, key, at + 4, size, mask)
    if kind == CLASS_NULL:
        out.set_little(slot, NULL, 1)
    elif kind == CLASS_UNDEFINED:
        out.set_little(slot, UNDEFINED, 1)
    elif kind == CLASS_MIN_KEY:
        out.set_little(slot, MIN_KEY, 1)
    else:
        assert kind == CLASS_MAX_KEY, "an opaque entry is not read back"
        out.set_little(slot, MAX_KEY, 1)
    return at


def _append_number(
    out: KeyWriter,
    slot: cython.Py_ssize_t,
    key: bytes,
    at: cython.Py_ssize_t,
    mask: cython.int,
    kind: cython.int,
    mark: cython.int,
) -> cython.Py_ssize_t:
    bits: cython.ulonglong = 0
    magnitude: cython.ulonglong
    missing: cython.ulonglong = 0
    tens: cython.int
    number: cython.double
    if kind in (_NAN, _ZERO):
        if kind == _NAN or mark in (DOUBLE, MINUS_ZERO_MARK):
            bits = _NAN_BITS if kind == _NAN else _SIGN if mark == MINUS_ZERO_MARK else 0
            return _append_double(out, slot, bits, at)
        return _append_integer(out, slot, 0, False, mark, at)
    if kind == _NEGATIVE:
        mask ^= 0xFF
    bits = _number_at(key, at, 8, mask)
    number = _double_of(bits)
    at += 8
    if mark == DOUBLE or not _is_whole(-number if kind == _NEGATIVE else number):
        return _append_double(out, slot, bits | (_SIGN if kind == _NEGATIVE else 0), at + 1)
    magnitude = cython.cast(cython.ulonglong, number) if cython.compiled else int(number)
    if key[at] ^ mask:
        at += 1
        tens = cython.cast(cython.int, _number_at(key, at, 2, mask)) - 0x4000 + 1
        at += 2
        while key[at] ^ mask:
            missing = 10 * missing + (key[at] ^ mask) - 0x30
            tens -= 1
            at += 1
        while tens > 0:
            missing *= 10
            tens -= 1
        magnitude += missing
    return _append_integer(out, slot, magnitude, kind == _NEGATIVE, mark, at + 1)


def _append_double(
    out: KeyWriter, slot: cython.Py_ssize_t, bits: cython.ulonglong, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    out.set_little(slot, DOUBLE, 1)
    out.put_little(bits, 8)
    return at


def _append_integer(
    out: KeyWriter,
    slot: cython.Py_ssize_t,
    magnitude: cython.ulonglong,
    negative: cython.bint,
    mark: cython.int,
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    small: cython.bint = mark != INT64 and magnitude <= (0x80000000 if negative else 0x7FFFFFFF)
    if negative and magnitude:
        # Two's complement, without a negative intermediate number.
        magnitude = (magnitude - 1) ^ 0xFFFFFFFFFFFFFFFF
    out.set_little(slot, INT32 if small else INT64, 1)
    out.put_little(magnitude, 4 if small else 8)
    return at


def _append_string(out: KeyWriter, key: bytes, at: cython.Py_ssize_t, mask: cython.int) -> cython.Py_ssize_t:
    begin: cython.Py_ssize_t = out.size
    out.put_number(0, 4)
    at = _append_text(out, key, at, mask)
    out.set_little(begin, out.size - begin - 4, 4)
    return at


def _append_text(out: KeyWriter, key: bytes, at: cython.Py_ssize_t, mask: cython.int) -> cython.Py_ssize_t:
    """Append a text and its NUL; return the end of its key."""
    byte: cython.int
    while True:
        byte = key[at] ^ mask
        at += 1
        if byte == 0:
            out.put(0)
            return at
        if byte == 1:
            byte = (key[at] ^ mask) - 1
            at += 1
        out.put(byte)


def _append_bytes(
    out: KeyWriter, key: bytes, at: cython.Py_ssize_t, size: cython.Py_ssize_t, mask: cython.int
) -> cython.Py_ssize_t:
    end: cython.Py_ssize_t = at + size
    while at < end:
        out.put(key[at] ^ mask)
        at += 1
    return at


@cython.exceptval(check=False)
def _number_at(key: bytes, at: cython.Py_ssize_t, width: cython.int, mask: cython.int) -> cython.ulonglong:
    number: cython.ulonglong = 0
    step: cython.int
    for step in range(width):
        number = number << 8 | (key[at + step] ^ mask)
    return number


@cython.exceptval(check=False)
def _double_of(bits: cython.ulonglong) -> cython.double:
    """Return the double with that representation."""
    if cython.compiled:
        return cython.cast(cython.pointer[cython.double], cython.address(bits))[0]
    return float(unpack("<d", pack("<Q", bits))[0])
