"""String operators, on UTF-8.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.arrays import BufferedCalculation
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_TEXT_BYTES

if not cython.compiled:
    from docstore.bson.walk import ARRAY, BOOL, INT32, INT64, OBJECT_ID, STRING, part
    from docstore.kernel.compute.expressions import integer_of, put_integer


_SPACES = b"\0\t\n\v\f\r "


@cython.exceptval(check=False)
def _is_short(value: ValueRef) -> cython.bint:
    """True if the value is a string within the limit."""
    return value.code == STRING and value.end - value.at < MAX_TEXT_BYTES


@cython.cfunc
def _text(value: ValueRef) -> bytes:
    return part(value.raw, value.at + 4, value.end - 1)


def _put_text(result: ValueRef, out: KeyWriter, text: bytes) -> cython.int:
    out.clear()
    out.put_little(len(text) + 1, 4)
    out.put_bytes(text)
    out.put(0)
    return result.put(STRING, out.contents())


@cython.exceptval(check=False)
def _continues(raw: bytes, at: cython.Py_ssize_t) -> cython.bint:
    """True if the byte continues a character."""
    return raw[at] & 0xC0 == 0x80


@cython.exceptval(check=False)
def _characters(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    count: cython.Py_ssize_t = 0
    while at < end:
        if not _continues(raw, at):
            count += 1
        at += 1
    return count


@cython.exceptval(check=False)
def _skip_characters(
    raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
) -> cython.Py_ssize_t:
    """Return the offset after `count` characters, or the end of the text."""
    while at < end and (count > 0 or _continues(raw, at)):
        if not _continues(raw, at):
            count -= 1
        at += 1
    while at < end and _continues(raw, at):
        at += 1
    return at


@cython.exceptval(check=False)
def _upper(byte: cython.int) -> cython.int:
    return byte - 32 if 97 <= byte <= 122 else byte


class Case(BufferedCalculation):
    """`$toUpper`, or `$toLower`, of ASCII letters."""

    _upper: cython.bint

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], upper: bool) -> None:
        super().__init__(operands, otherwise)
        self._upper = upper

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        at: cython.Py_ssize_t
        byte: cython.int
        self._locate(0, document, operand)
        if not _is_short(operand):
            return False
        out.clear()
        out.put_part(operand.raw, operand.at, operand.at + 4)
        for at in range(operand.at + 4, operand.end):
            byte = operand.raw[at]
            if self._upper:
                byte = _upper(byte)
            elif 65 <= byte <= 90:
                byte += 32
            out.put(byte)
        self._store_result(STRING, result)
        return True


class Counted(BufferedCalculation):
    """An operator that counts in bytes, or in `characters`."""

    _of_characters: cython.bint

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], characters: bool
    ) -> None:
        super().__init__(operands, otherwise)
        self._of_characters = characters


class Length(Counted):
    """`$strLenBytes`, or with `characters` `$strLenCP`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        operand: ValueRef = self._first
        self._locate(0, document, operand)
        if not _is_short(operand):
            return False
        if self._of_characters:
            put_integer(result, INT32, _characters(operand.raw, operand.at + 4, operand.end - 1))
        else:
            put_integer(result, INT32, operand.end - operand.at - 5)
        return True


class Substring(Counted):
    """`$substrBytes`, or with `characters` `$substrCP`, between whole characters."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        operand: ValueRef = self._first
        bound: ValueRef = self._second
        out: KeyWriter = self._out
        start: cython.longlong
        count: cython.longlong
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        self._locate(0, document, operand)
        self._locate(1, document, bound)
        if not _is_short(operand) or bound.code != INT32:
            return False
        start = integer_of(bound)
        self._locate(2, document, bound)
        if bound.code != INT32 or start < 0:
            return False
        count = integer_of(bound)
        first, stop = operand.at + 4, operand.end - 1
        if self._of_characters:
            if count < 0:
                return False
            first = _skip_characters(operand.raw, first, stop, start)
            last = _skip_characters(operand.raw, first, stop, count)
        else:
            first = min(first + start, stop)
            last = stop if count < 0 else min(first + count, stop)
            if (first < stop and _continues(operand.raw, first)) or (last < stop and _continues(operand.raw, last)):
                return False
        out.clear()
        out.put_little(last - first + 1, 4)
        out.put_part(operand.raw, first, last)
        out.put(0)
        self._store_result(STRING, result)
        return True


class Parts(BufferedCalculation):
    """`$split`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        out: KeyWriter = self._out
        piece: bytes
        position: cython.Py_ssize_t
        first: cython.Py_ssize_t
        self._locate(0, document, self._first)
        self._locate(1, document, self._second)
        if self._first.end - self._first.at > 65536 or not _is_short(self._first) or not _is_short(self._second):
            return False
        separator = _text(self._second)
        if not separator:
            return False
        out.clear()
        first = out.begin_document()
        for position, piece in enumerate(_text(self._first).split(separator)):
            out.put_member(STRING, position)
            out.put_little(len(piece) + 1, 4)
            out.put_bytes(piece)
            out.put(0)
        out.end_document(first)
        self._store_result(ARRAY, result)
        return True


class Trimmed(BufferedCalculation):
    """`$trim`, `$ltrim`, `$rtrim` of white space, up to the first non-ASCII character."""

    _trims_left: cython.bint
    _trims_right: cython.bint

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        trims_left: bool,
        trims_right: bool,
    ) -> None:
        super().__init__(operands, otherwise)
        self._trims_left = trims_left
        self._trims_right = trims_right

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        operand: ValueRef = self._first
        text: bytes
        self._locate(0, document, operand)
        if not _is_short(operand):
            return False
        text = _text(operand)
        if self._trims_left:
            text = text.lstrip(_SPACES)
        if self._trims_right:
            text = text.rstrip(_SPACES)
        if text and ((self._trims_left and text[0] > 127) or (self._trims_right and text[len(text) - 1] > 127)):
            return False
        _put_text(result, self._out, text)
        return True


class Index(Counted):
    """`$indexOfBytes`, or with `characters` `$indexOfCP`, in the whole of a text."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        text: bytes
        position: cython.Py_ssize_t
        self._locate(0, document, self._first)
        if not _is_short(self._first):
            return False
        self._locate(1, document, self._second)
        if not _is_short(self._second):
            return False
        text = _text(self._first)
        position = text.find(_text(self._second))
        if self._of_characters and position > 0:
            position = _characters(text, 0, position)
        put_integer(result, INT32, position)
        return True


class Replaced(BufferedCalculation):
    """`$replaceOne`, or `$replaceAll`: a text, the text to find, and its replacement."""

    _count: cython.Py_ssize_t

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], count: int) -> None:
        super().__init__(operands, otherwise)
        self._count = count

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        text: bytes
        sought: bytes
        other: bytes
        self._locate(0, document, self._first)
        self._locate(1, document, self._second)
        if not _is_short(self._first) or not _is_short(self._second):
            return False
        text = _text(self._first)
        sought = _text(self._second)
        self._locate(2, document, self._second)
        if not _is_short(self._second) or not sought:
            return False
        other = _text(self._second)
        if text.count(sought) * len(other) > MAX_TEXT_BYTES:
            return False
        _put_text(result, self._out, text.replace(sought, other, self._count))
        return True


class CaseOrder(Calculation):
    """`$strcasecmp`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        first: ValueRef = self._first
        second: ValueRef = self._second
        at: cython.Py_ssize_t
        length: cython.Py_ssize_t
        order: cython.int = 0
        self._locate(0, document, first)
        self._locate(1, document, second)
        if not _is_short(first) or not _is_short(second):
            return False
        length = min(first.end - first.at, second.end - second.at) - 5
        for at in range(4, 4 + length):
            order = _upper(first.raw[first.at + at]) - _upper(second.raw[second.at + at])
            if order != 0:
                break
        if order == 0:
            order = (first.end - first.at > second.end - second.at) - (first.end - first.at < second.end - second.at)
        put_integer(result, INT32, (order > 0) - (order < 0))
        return True


class Text(BufferedCalculation):
    """`$toString` of strings, integers, booleans and ids."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        self._locate(0, document, result)
        if result.code == STRING:
            return True
        if result.code in (INT32, INT64):
            _put_text(result, self._out, b"%d" % integer_of(result))
        elif result.code == BOOL:
            _put_text(result, self._out, b"true" if result.raw[result.at] else b"false")
        elif result.code == OBJECT_ID:
            _put_text(result, self._out, part(result.raw, result.at, result.end).hex().encode())
        else:
            return False
        return True
