"""What is asked of strings by a regular expression.

Always true: a text that is looked for without a library is found exactly where PCRE finds the pattern of it. Without
regard to case that is so by bytes because the text is ASCII: of all other characters only the Kelvin sign and the long
s are letters of it in the other case, and a string that may hold one of those is left to the library.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.kernel.match.predicate import PathPredicate

if not cython.compiled:
    from docstore.bson.order import CLASS_STRING, class_of
    from docstore.bson.walk import REGEX, part
    from docstore.kernel.match.path_predicates import stands_at
    from docstore.kernel.match.predicate import MISSING

_LONG_TEXT = 128
"""Longer strings are searched by what is faster for them."""


class Regex(PathPredicate):
    """A string (or symbol) in which `search` finds its pattern, or a stored regular expression whose bytes are `same`.

    `literal`: the pattern is nothing but this text, at the start or at the end of the string where that is wanted, and
    is looked for without `search`; with `caseless` it is ASCII. As everywhere, a newline at the end of a string may
    stand behind its end.
    """

    _search: Callable[[str], bool]
    _same: bytes | None
    _text: bytes | None
    _size: int
    _at_start: bool
    _at_end: bool
    _caseless: bool
    _has_others: bool

    def __init__(
        self,
        path: str,
        search: Callable[[str], bool],
        same: bytes | None = None,
        literal: bytes | None = None,
        at_start: bool = False,
        at_end: bool = False,
        caseless: bool = False,
    ) -> None:
        super().__init__(path, True)
        self._search = search
        self._same = same
        self._text = literal.lower() if literal is not None and caseless else literal
        self._size = 0 if literal is None else len(literal)
        self._at_start = at_start
        self._at_end = at_end
        self._caseless = caseless
        # Letters of which another character is the other case too.
        self._has_others = caseless and self._text is not None and (b"k" in self._text or b"s" in self._text)

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        if code == REGEX:
            return self._same is not None and part(raw, at, end) == self._same
        if code == MISSING or class_of(code) != CLASS_STRING:
            return False
        if self._text is not None:
            if self._has_text(raw, at + 4, end - 1):
                return True
            if not self._has_others or _is_ascii(raw, at + 4, end - 1):
                return False
        return bool(self._search(part(raw, at + 4, end - 1).decode("utf-8", "replace")))

    def _has_text(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Whether the literal stands where it should in the string at [at, end)."""
        text: bytes = self._text or b""
        size: cython.Py_ssize_t = self._size
        if self._at_end and end > at and raw[end - 1] == 0x0A:
            # The text itself has no newline.
            end -= 1
        if end - at < size:
            return False
        if self._at_start:
            return (not self._at_end or end - at == size) and self._stands_at(raw, at, text)
        if self._at_end:
            return self._stands_at(raw, end - size, text)
        if self._caseless:
            return _has_folded(raw, at, end - size, text, size)
        if end - at > _LONG_TEXT:
            return raw.find(text, at, end) >= 0
        end -= size
        while at <= end:
            if raw[at] == text[0] and stands_at(raw, at, text, size):
                return True
            at += 1
        return False

    def _stands_at(self, raw: bytes, at: cython.Py_ssize_t, text: bytes) -> cython.bint:
        if self._caseless:
            return _stands_folded(raw, at, text, self._size)
        return stands_at(raw, at, text, self._size)


def _has_folded(
    raw: bytes, at: cython.Py_ssize_t, last: cython.Py_ssize_t, text: bytes, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the lower text stands, in whichever case, at one of the places from `at` to `last`."""
    lower: cython.int = text[0]
    upper: cython.int = lower - 0x20 if 0x61 <= lower <= 0x7A else lower
    byte: cython.int
    while at <= last:
        byte = raw[at]
        if byte in (lower, upper) and _stands_folded(raw, at, text, size):
            return True
        at += 1
    return False


def _stands_folded(raw: bytes, at: cython.Py_ssize_t, text: bytes, size: cython.Py_ssize_t) -> cython.bint:
    """Whether the lower text stands at `at` in whichever case; there are as many bytes."""
    byte: cython.int
    same: cython.Py_ssize_t = 0
    while same < size:
        byte = raw[at + same]
        if 0x41 <= byte <= 0x5A:
            byte += 0x20
        if byte != text[same]:
            return False
        same += 1
    return True


def _is_ascii(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    while at < end:
        if raw[at] >= 0x80:
            return False
        at += 1
    return True
