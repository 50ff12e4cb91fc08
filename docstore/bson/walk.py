"""Walking raw BSON: the boundaries of fields and values.

Pure-Python-mode Cython: the same file runs interpreted and compiled. Offsets are into one `bytes` object. A document or
array is identified by the offset of its length, a value by its type byte (`code`) and the offset of its first byte.

- No function reads outside the document it was given; a length that does not fit is InvalidBSON.
- `docstore.bson.validation` checks that strings are UTF-8 and nested documents well formed.

Source: bsonspec.org, version 1.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import cython

from docstore.errors import Code, CommandError

if cython.compiled:
    from cython.cimports.libc.string import memcmp

if not cython.compiled:
    from struct import pack, unpack_from

    from docstore.bson.allowance import spend

    DOUBLE = 0x01
    STRING = 0x02
    OBJECT = 0x03
    ARRAY = 0x04
    BINARY = 0x05
    UNDEFINED = 0x06
    OBJECT_ID = 0x07
    BOOL = 0x08
    DATE = 0x09
    NULL = 0x0A
    REGEX = 0x0B
    DB_POINTER = 0x0C
    CODE = 0x0D
    SYMBOL = 0x0E
    CODE_WITH_SCOPE = 0x0F
    INT32 = 0x10
    TIMESTAMP = 0x11
    INT64 = 0x12
    DECIMAL = 0x13
    MAX_KEY = 0x7F
    MIN_KEY = 0xFF

    MAX_NESTING = 250
    """Maximum nesting of documents in comparisons and keys; stored ones nest less."""
    _SPENT_AT_ONCE = 65536
    """Bytes walked between two charges of their cost."""

Value = tuple[int, bytes]
"""A BSON value: its type byte, and its encoded bytes."""

_BLOCK: cython.Py_ssize_t = 256
"""Bytes compared at once in a search for the first difference."""

EMPTY_DOCUMENT = b"\x05\0\0\0\0"


def invalid(reason: str) -> CommandError:
    """Return the error for bytes that are not BSON."""
    return CommandError(Code.InvalidBSON, reason)


def too_deep() -> CommandError:
    """Return the error for documents nested too deeply."""
    return CommandError(Code.Overflow, "a document nests too deeply")


@cython.exceptval(check=False)
def int32_at(raw: bytes, at: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        return cython.cast(cython.pointer[cython.int], cython.address(cython.cast(cython.p_char, raw)[at]))[0]
    return int.from_bytes(raw[at : at + 4], "little", signed=True)


@cython.exceptval(check=False)
def int64_at(raw: bytes, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return cython.cast(cython.pointer[cython.longlong], cython.address(cython.cast(cython.p_char, raw)[at]))[0]
    return int.from_bytes(raw[at : at + 8], "little", signed=True)


@cython.exceptval(check=False)
def uint64_at(raw: bytes, at: cython.Py_ssize_t) -> cython.ulonglong:
    if cython.compiled:
        return cython.cast(cython.pointer[cython.ulonglong], cython.address(cython.cast(cython.p_char, raw)[at]))[0]
    return int.from_bytes(raw[at : at + 8], "little")


@cython.exceptval(check=False)
def double_at(raw: bytes, at: cython.Py_ssize_t) -> cython.double:
    if cython.compiled:
        return cython.cast(cython.pointer[cython.double], cython.address(cython.cast(cython.p_char, raw)[at]))[0]
    return float(unpack_from("<d", raw, at)[0])


@cython.exceptval(check=False)
def bits_of(number: cython.double) -> cython.ulonglong:
    """Return the IEEE 754 representation of a double, as a number."""
    if cython.compiled:
        return cython.cast(cython.pointer[cython.ulonglong], cython.address(number))[0]
    return int.from_bytes(pack(">d", number), "big")


def part(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
    """Return the bytes [at, end); compiled, this is several times faster than a slice."""
    if cython.compiled:
        return cython.cast(cython.p_char, raw)[at:end]  # type: ignore[index, return-value]
    return raw[at:end]


@cython.exceptval(-2, check=True)
def document_stop(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the offset of the NUL that ends the document at `start`. It must be before `limit`."""
    size: cython.int
    if start + 5 > limit:
        raise invalid("a document is shorter than its length field")
    size = int32_at(raw, start)
    if size < 5 or size > limit - start or raw[start + size - 1] != 0:
        raise invalid(f"a document's length {size} does not fit")
    return start + size - 1


@cython.exceptval(-2, check=True)
def name_end(raw: bytes, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the offset of the NUL that ends the C string at `at`, before `stop`."""
    while at < stop and raw[at] != 0:
        at += 1
    if at >= stop:
        raise invalid("a name does not end")
    return at


@cython.exceptval(-2, check=True)
def value_end(raw: bytes, code: cython.int, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the offset after the value at `at`. Errors: InvalidBSON if it exceeds `stop` or the type is unknown."""
    end: cython.Py_ssize_t
    size: cython.int
    if code == INT32:
        end = at + 4
    elif code in (DOUBLE, INT64, DATE, TIMESTAMP):
        end = at + 8
    elif code == OBJECT_ID:
        end = at + 12
    elif code == BOOL:
        end = at + 1
    elif code in (NULL, UNDEFINED, MIN_KEY, MAX_KEY):
        return at
    elif code == DECIMAL:
        end = at + 16
    elif code == REGEX:
        return name_end(raw, name_end(raw, at, stop) + 1, stop) + 1
    else:
        if at + 4 > stop:
            raise invalid("a value is cut off")
        size = int32_at(raw, at)
        if size < 0 or size > stop - at:
            raise invalid(f"a value's length {size} does not fit")
        end = at + size
        if code in (STRING, CODE, SYMBOL):
            end += 4
            if size < 1 or end > stop or raw[end - 1] != 0:
                raise invalid("a string does not end with NUL")
        elif code in (OBJECT, ARRAY, CODE_WITH_SCOPE):
            if size < 5:
                raise invalid("a nested document is too short")
        elif code == BINARY:
            end += 5
        elif code == DB_POINTER:
            end += 16
        else:
            raise invalid(f"unknown BSON type {code}")
    if end > stop:
        raise invalid("a value is cut off")
    return end


@cython.exceptval(-2, check=True)
def find(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, name: bytes) -> cython.Py_ssize_t:
    """Return the offset of the type byte of the first field called `name` in the document at `start`, or -1.

    The value begins at that offset + len(name) + 2; `value_end` checks that it fits.
    """
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    size: cython.Py_ssize_t = len(name)
    at: cython.Py_ssize_t = start + 4
    begin: cython.Py_ssize_t
    same: cython.Py_ssize_t
    while at < stop:
        begin = at + 1
        same = 0
        while same < size and raw[begin + same] == name[same]:
            same += 1
        if same == size and raw[begin + size] == 0:
            return at
        at = value_end(raw, raw[at], name_end(raw, begin + same, stop) + 1, stop)
    return -1


def encoded_name(name: str) -> bytes:
    """Return a field name encoded, without its NUL. Errors: BadValue if it contains one."""
    if "\0" in name:
        raise CommandError(Code.BadValue, "a field name must not contain a null byte")
    return name.encode()


def place_in_array(name: str) -> int:
    """Return the array index that a part of a path may denote, or -1."""
    if name.isascii() and name.isdigit() and (name == "0" or name[0] != "0") and len(name) < 10:
        return int(name)
    return -1


def name_text(raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> str:
    """Return the field name at [begin, end) as text. Errors: InvalidBSON if it is not UTF-8."""
    try:
        return part(raw, begin, end).decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid("a field name is not UTF-8") from error


def elements(raw: bytes) -> list[tuple[str, int, bytes]]:
    """Return the fields of a document (or array) in order: (name, type byte, value bytes)."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    code: cython.int
    due: cython.Py_ssize_t = _SPENT_AT_ONCE
    fields: list[tuple[str, int, bytes]] = []
    while at < stop:
        code = raw[at]
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, code, named + 1, stop)
        fields.append((name_text(raw, at + 1, named), code, part(raw, named + 1, end)))
        at = end
        if at >= due:
            spend(at + _SPENT_AT_ONCE - due)
            due = at + _SPENT_AT_ONCE
    spend(at + _SPENT_AT_ONCE - due)
    return fields


def get_field(raw: bytes, name: str) -> Value | None:
    """Return the first field called `name`, or None."""
    key: bytes = encoded_name(name)
    at: cython.Py_ssize_t = find(raw, 0, len(raw), key)
    if at < 0:
        return None
    begin: cython.Py_ssize_t = at + len(key) + 2
    code: cython.int = raw[at]
    end: cython.Py_ssize_t = value_end(raw, code, begin, len(raw))
    if end - begin > _SPENT_AT_ONCE:
        spend(end - begin)
    return code, part(raw, begin, end)


def get_path(raw: bytes, path: str) -> Value | None:
    """Return the value at a dotted path through embedded documents, or None; arrays are not traversed."""
    value: tuple[int, bytes] | None = None
    document: bytes = raw
    for name in path.split("."):
        if value is not None:
            if value[0] != OBJECT:
                return None
            document = value[1]
        value = get_field(document, name)
        if value is None:
            return None
    return value


def values(raw: bytes) -> list[Value]:
    """Return the elements of an array (the values of a document) in order."""
    return _values_from(raw, 4, len(raw))[0]


def each_value(raw: bytes) -> Iterable[Value]:
    """Yield the elements of an array in order, without materializing a long array."""
    return values(raw) if len(raw) <= _SPENT_AT_ONCE else _pieces(raw)


def value_count(raw: bytes) -> int:
    """Return the number of elements of an array."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    begin: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    spend(stop >> 3)
    while at < stop:
        begin = name_end(raw, at + 1, stop) + 1
        at = value_end(raw, raw[at], begin, stop)
        count += 1
    return count


def _pieces(raw: bytes) -> Iterator[Value]:
    at = 4
    while at < len(raw) - 1:
        batch, at = _values_from(raw, at, at + _SPENT_AT_ONCE)
        yield from batch


def _values_from(raw: bytes, first: int, most: int) -> tuple[list[Value], int]:
    """Return (elements that begin from `first` up to `most`, offset of the next one)."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    limit: cython.Py_ssize_t = min(stop, most)
    at: cython.Py_ssize_t = first
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    due: cython.Py_ssize_t = at + _SPENT_AT_ONCE
    code: cython.int
    members: list[Value] = []
    while at < limit:
        code = raw[at]
        begin = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, code, begin, stop)
        members.append((code, part(raw, begin, end)))
        at = end
        if at >= due:
            spend(at + _SPENT_AT_ONCE - due)
            due = at + _SPENT_AT_ONCE
    spend(at + _SPENT_AT_ONCE - due)
    return members, at


def changed_fields(old: bytes, new: bytes) -> list[tuple[int, int, bytes]] | None:
    """Return (position, type byte, value bytes) of each field of `new` that differs from `old`, in order.

    None if the two do not have the same names and types in the same order.
    """
    stop: cython.Py_ssize_t = document_stop(new, 0, len(new))
    limit: cython.Py_ssize_t = document_stop(old, 0, len(old))
    at: cython.Py_ssize_t = 4
    other: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.Py_ssize_t
    position: cython.int = 0
    changed: list[tuple[int, int, bytes]] = []
    while at < stop:
        named = name_end(new, at + 1, stop) + 1
        size = named - at
        if other + size > limit or not same_bytes(new, at, old, other, size):
            return None
        end = value_end(new, new[at], named, stop)
        other += size
        size = value_end(old, new[at], other, limit) - other
        if size != end - named or not same_bytes(new, named, old, other, size):
            changed.append((position, new[at], part(new, named, end)))
        other += size
        at = end
        position += 1
    return changed if other == limit else None


@cython.exceptval(check=False)
def same_bytes(
    raw: bytes, at: cython.Py_ssize_t, other: bytes, begin: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """True if `size` bytes from `at` and from `begin` are equal. Both ranges must be in bounds."""
    if cython.compiled:
        mine: cython.p_char = cython.cast(cython.p_char, raw) + at  # type: ignore[assignment, operator]
        its: cython.p_char = cython.cast(cython.p_char, other) + begin  # type: ignore[assignment, operator]
        return memcmp(mine, its, size) == 0  # type: ignore[no-any-return]
    return raw[at : at + size] == other[begin : begin + size]


@cython.exceptval(check=False)
def same_front(raw: bytes, other: bytes, at: cython.Py_ssize_t, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the length of the common prefix from `at`, at most `most` bytes, which must be in bounds."""
    same: cython.Py_ssize_t = 0
    while most - same >= _BLOCK and same_bytes(raw, at + same, other, at + same, _BLOCK):
        same += _BLOCK
    while same < most and raw[at + same] == other[at + same]:
        same += 1
    return same


@cython.exceptval(check=False)
def same_end(raw: bytes, other: bytes, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the length of the common suffix, at most `most` bytes, which must be in bounds."""
    same: cython.Py_ssize_t = 0
    mine: cython.Py_ssize_t = len(raw)
    its: cython.Py_ssize_t = len(other)
    while most - same >= _BLOCK and same_bytes(raw, mine - same - _BLOCK, other, its - same - _BLOCK, _BLOCK):
        same += _BLOCK
    while same < most and raw[mine - same - 1] == other[its - same - 1]:
        same += 1
    return same
