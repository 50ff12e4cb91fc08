"""String operators, on UTF-8.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.arrays import Made
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.sources import Place, Source
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_TEXT_BYTES

if not cython.compiled:
    from docstore.bson.walk import ARRAY, BOOL, INT32, INT64, OBJECT_ID, STRING, part
    from docstore.kernel.compute.expressions import integer_of, put_integer


_SPACES = b"\0\t\n\v\f\r "


def _is_short(place: Place) -> cython.bint:
    """True if the value is a string within the limit."""
    return place.code == STRING and place.end - place.at < MAX_TEXT_BYTES


def _text(place: Place) -> bytes:
    return part(place.raw, place.at + 4, place.end - 1)


def _put_text(found: Place, out: KeyWriter, text: bytes) -> cython.int:
    out.clear()
    out.put_little(len(text) + 1, 4)
    out.put_bytes(text)
    out.put(0)
    return found.put(STRING, out.taken())


def _continues(raw: bytes, at: cython.Py_ssize_t) -> cython.bint:
    """True if the byte continues a character."""
    return raw[at] & 0xC0 == 0x80


def _characters(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    count: cython.Py_ssize_t = 0
    while at < end:
        if not _continues(raw, at):
            count += 1
        at += 1
    return count


def _behind(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong) -> cython.Py_ssize_t:
    """Return the offset after `count` characters, or the end of the text."""
    while at < end and (count > 0 or _continues(raw, at)):
        if not _continues(raw, at):
            count -= 1
        at += 1
    while at < end and _continues(raw, at):
        at += 1
    return at


def _upper(byte: cython.int) -> cython.int:
    return byte - 32 if 97 <= byte <= 122 else byte


class Case(Made):
    """`$toUpper`, or `$toLower`, of ASCII letters."""

    _upper: cython.bint

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], upper: bool) -> None:
        super().__init__(operands, otherwise)
        self._upper = upper

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        out: KeyWriter = self._out
        at: cython.Py_ssize_t
        byte: cython.int
        self._locate(0, document, one)
        if not _is_short(one):
            return False
        out.clear()
        out.put_part(one.raw, one.at, one.at + 4)
        for at in range(one.at + 4, one.end):
            byte = one.raw[at]
            if self._upper:
                byte = _upper(byte)
            elif 65 <= byte <= 90:
                byte += 32
            out.put(byte)
        self._put(STRING, found)
        return True


class Counted(Made):
    """An operator that counts in bytes, or in `characters`."""

    _of_characters: cython.bint

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], characters: bool
    ) -> None:
        super().__init__(operands, otherwise)
        self._of_characters = characters


class Length(Counted):
    """`$strLenBytes`, or with `characters` `$strLenCP`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        self._locate(0, document, one)
        if not _is_short(one):
            return False
        if self._of_characters:
            put_integer(found, INT32, _characters(one.raw, one.at + 4, one.end - 1))
        else:
            put_integer(found, INT32, one.end - one.at - 5)
        return True


class Substring(Counted):
    """`$substrBytes`, or with `characters` `$substrCP`, between whole characters."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        two: Place = self._two
        out: KeyWriter = self._out
        start: cython.longlong
        count: cython.longlong
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        self._locate(0, document, one)
        self._locate(1, document, two)
        if not _is_short(one) or two.code != INT32:
            return False
        start = integer_of(two)
        self._locate(2, document, two)
        if two.code != INT32 or start < 0:
            return False
        count = integer_of(two)
        first, stop = one.at + 4, one.end - 1
        if self._of_characters:
            if count < 0:
                return False
            first = _behind(one.raw, first, stop, start)
            last = _behind(one.raw, first, stop, count)
        else:
            first = min(first + start, stop)
            last = stop if count < 0 else min(first + count, stop)
            if (first < stop and _continues(one.raw, first)) or (last < stop and _continues(one.raw, last)):
                return False
        out.clear()
        out.put_little(last - first + 1, 4)
        out.put_part(one.raw, first, last)
        out.put(0)
        self._put(STRING, found)
        return True


class Parts(Made):
    """`$split`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        out: KeyWriter = self._out
        piece: bytes
        position: cython.Py_ssize_t
        first: cython.Py_ssize_t
        self._locate(0, document, self._one)
        self._locate(1, document, self._two)
        if self._one.end - self._one.at > 65536 or not _is_short(self._one) or not _is_short(self._two):
            return False
        separator = _text(self._two)
        if not separator:
            return False
        out.clear()
        first = out.begin_document()
        for position, piece in enumerate(_text(self._one).split(separator)):
            out.put_member(STRING, position)
            out.put_little(len(piece) + 1, 4)
            out.put_bytes(piece)
            out.put(0)
        out.end_document(first)
        self._put(ARRAY, found)
        return True


class Trimmed(Made):
    """`$trim`, `$ltrim`, `$rtrim` of white space, up to the first non-ASCII character."""

    _left: cython.bint
    _right: cython.bint

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], left: bool, right: bool
    ) -> None:
        super().__init__(operands, otherwise)
        self._left = left
        self._right = right

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        text: bytes
        self._locate(0, document, one)
        if not _is_short(one):
            return False
        text = _text(one)
        if self._left:
            text = text.lstrip(_SPACES)
        if self._right:
            text = text.rstrip(_SPACES)
        if text and ((self._left and text[0] > 127) or (self._right and text[len(text) - 1] > 127)):
            return False
        _put_text(found, self._out, text)
        return True


class Index(Counted):
    """`$indexOfBytes`, or with `characters` `$indexOfCP`, in the whole of a text."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        text: bytes
        place: cython.Py_ssize_t
        self._locate(0, document, self._one)
        if not _is_short(self._one):
            return False
        self._locate(1, document, self._two)
        if not _is_short(self._two):
            return False
        text = _text(self._one)
        place = text.find(_text(self._two))
        if self._of_characters and place > 0:
            place = _characters(text, 0, place)
        put_integer(found, INT32, place)
        return True


class Replaced(Made):
    """`$replaceOne`, or `$replaceAll`: a text, the text to find, and its replacement."""

    _count: cython.Py_ssize_t

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], count: int) -> None:
        super().__init__(operands, otherwise)
        self._count = count

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        text: bytes
        sought: bytes
        other: bytes
        self._locate(0, document, self._one)
        self._locate(1, document, self._two)
        if not _is_short(self._one) or not _is_short(self._two):
            return False
        text = _text(self._one)
        sought = _text(self._two)
        self._locate(2, document, self._two)
        if not _is_short(self._two) or not sought:
            return False
        other = _text(self._two)
        if text.count(sought) * len(other) > MAX_TEXT_BYTES:
            return False
        _put_text(found, self._out, text.replace(sought, other, self._count))
        return True


class CaseOrder(Calculation):
    """`$strcasecmp`."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        one: Place = self._one
        two: Place = self._two
        at: cython.Py_ssize_t
        length: cython.Py_ssize_t
        order: cython.int = 0
        self._locate(0, document, one)
        self._locate(1, document, two)
        if not _is_short(one) or not _is_short(two):
            return False
        length = min(one.end - one.at, two.end - two.at) - 5
        for at in range(4, 4 + length):
            order = _upper(one.raw[one.at + at]) - _upper(two.raw[two.at + at])
            if order != 0:
                break
        if order == 0:
            order = (one.end - one.at > two.end - two.at) - (one.end - one.at < two.end - two.at)
        put_integer(found, INT32, (order > 0) - (order < 0))
        return True


class Text(Made):
    """`$toString` of strings, integers, booleans and ids."""

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        self._locate(0, document, found)
        if found.code == STRING:
            return True
        if found.code in (INT32, INT64):
            _put_text(found, self._out, b"%d" % integer_of(found))
        elif found.code == BOOL:
            _put_text(found, self._out, b"true" if found.raw[found.at] else b"false")
        elif found.code == OBJECT_ID:
            _put_text(found, self._out, part(found.raw, found.at, found.end).hex().encode())
        else:
            return False
        return True
