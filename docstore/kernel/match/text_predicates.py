"""Regular expressions as predicates of strings, with literal texts searched for without PCRE.

Invariant: a literal search finds a text exactly where PCRE does. A caseless search by bytes is right because the text
is ASCII. Only the Kelvin sign and the long s are another case of an ASCII letter; strings that may hold one go to PCRE.
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

_LONG_TEXT: cython.Py_ssize_t = 128
"""Most bytes of a string that is searched by a simple loop; `bytes.find` is faster for longer ones."""


class Regex(PathPredicate):
    """A string (or symbol) that `search` accepts, or a stored regular expression whose bytes are `same`.

    `literal`: the pattern is only this text, searched for without `search`. `at_start` and `at_end` anchor it; with
    `caseless` it is ASCII. As in PCRE, a newline at the end of a string may follow the anchored end.
    """

    _search: Callable[[str], bool]
    _same: bytes | None
    _text: bytes | None
    _size: cython.Py_ssize_t
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
        # Letters with another case outside ASCII.
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
        """True if the literal is at its place in the string at [at, end)."""
        text: bytes = self._text or b""
        size: cython.Py_ssize_t = self._size
        if self._at_end and end > at and raw[end - 1] == 0x0A:
            # The literal itself has no newline.
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

    @cython.exceptval(check=False)
    def _stands_at(self, raw: bytes, at: cython.Py_ssize_t, text: bytes) -> cython.bint:
        if self._caseless:
            return _stands_folded(raw, at, text, self._size)
        return stands_at(raw, at, text, self._size)


@cython.exceptval(check=False)
def _has_folded(
    raw: bytes, at: cython.Py_ssize_t, last: cython.Py_ssize_t, text: bytes, size: cython.Py_ssize_t
) -> cython.bint:
    """True if the lower-case text is, in any case, at one of the offsets from `at` to `last`."""
    lower: cython.int = text[0]
    upper: cython.int = lower - 0x20 if 0x61 <= lower <= 0x7A else lower
    byte: cython.int
    while at <= last:
        byte = raw[at]
        if byte in (lower, upper) and _stands_folded(raw, at, text, size):
            return True
        at += 1
    return False


@cython.exceptval(check=False)
def _stands_folded(raw: bytes, at: cython.Py_ssize_t, text: bytes, size: cython.Py_ssize_t) -> cython.bint:
    """True if the lower-case text is at `at` in any case; there must be as many bytes."""
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


@cython.exceptval(check=False)
def _is_ascii(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    while at < end:
        if raw[at] >= 0x80:
            return False
        at += 1
    return True
