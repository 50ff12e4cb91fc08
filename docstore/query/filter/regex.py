"""Regular expressions: PCRE2, as in MongoDB, with bounded backtracking.

- Options are MongoDB's `i m s x u`.
- `\\d \\w \\b` and the POSIX classes are ASCII; caseless comparison of letters follows Unicode.
- A search that exceeds the match limit does not match, so a hostile pattern costs bounded time per document.
- Python's `re`, several times faster, replaces PCRE2 if it provably means the same and backtracks at most linearly.
  This holds for plain characters, dots, anchors and one `.*` after `^`, with no option but `s`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, cast

import pcre2

from docstore.bson.allowance import spend
from docstore.errors import Code, CommandError
from docstore.query.limits import MAX_PATTERN_BYTES

Search = Callable[[str], bool]
"""Returns a truthy value if a string matches."""

MATCH_LIMIT = 100_000
"""Most backtracking steps for a string (about 2 ms)."""

_FLAGS = {
    "i": pcre2.IGNORECASE,
    "m": pcre2.MULTILINE,
    "s": pcre2.DOTALL,
    "x": pcre2.VERBOSE,
    "u": pcre2.NOFLAG,
}
_CHARACTER = r"[A-Za-z0-9 _@#%&=:;,<>/!~'\"-]|\\[.*+?()\[\]{}|^$\\/-]"
_UNIT = rf"{_CHARACTER}|\."
_SIMPLE = re.compile(rf"\^?(?:{_UNIT})+\$?")
_ANCHORED = re.compile(rf"\^(?:{_UNIT})*\.[*+]\??(?:{_UNIT})*\$?")
_LITERAL = re.compile(rf"(\^?)((?:{_CHARACTER})+)(\$?)")
_LITERAL_PREFIX = re.compile(rf"(?:{_CHARACTER})+")

_PER_PATTERN = 2048
"""Units of work charged for compiling one, in bytes of values."""


@lru_cache(maxsize=512)
def compile_regex(pattern: str, options: str) -> Search:
    """Return the search function of a pattern; 51091 for a bad pattern, 51108 for a bad option."""
    _check(pattern, options)
    spend(_PER_PATTERN)
    if options in ("", "s") and (_SIMPLE.fullmatch(pattern) or _ANCHORED.fullmatch(pattern)):
        return cast(Search, re.compile(pattern, re.ASCII | (re.DOTALL if options else re.NOFLAG)).search)
    return _bounded(compile_pattern(pattern, options).search)


def _check(pattern: str, options: str) -> None:
    for letter in options:
        if letter not in _FLAGS:
            raise CommandError(51108, f" invalid flag in regex options: {letter}")
    if "\0" in pattern:
        raise CommandError(Code.BadValue, "Regular expression cannot contain an embedded null byte")


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, options: str) -> pcre2.Pattern[str]:
    """Return the compiled pattern, whose searches raise pcre2.LibraryError at the match limit. Errors as
    `compile_regex`.
    """
    _check(pattern, options)
    flags = pcre2.ASCII
    for letter in options:
        flags |= _FLAGS[letter]
    limited_pattern = f"(*LIMIT_MATCH={MATCH_LIMIT}){pattern}"
    try:
        return pcre2.compile(limited_pattern, flags)
    except pcre2.PatternError as error:
        raise CommandError(51091, f"Regular expression is invalid: {str(error).partition('; ')[2]}") from None
    except pcre2.LibraryError:  # a good pattern beyond what the compiler to machine code takes
        return pcre2.compile(limited_pattern, flags, jit=False)


def _bounded(search: Callable[[str], object]) -> Search:
    def bounded_search(text: str) -> bool:
        try:
            return bool(search(text))
        except pcre2.LibraryError:
            return False

    return bounded_search


class Literal(NamedTuple):
    """A literal text to search for: at the start of a string, at its end, both, or anywhere; `caseless`: in
    any case.
    """

    text: bytes
    at_start: bool
    at_end: bool
    caseless: bool


def check_regex(pattern: str, options: str) -> None:
    """Raise the errors of `compile_regex`, without compiling a pattern that is a literal text; 51091 for a long one."""
    if len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise CommandError(51091, "Regular expression is invalid: regular expression is too large")
    if literal_of(pattern, options) is None:
        compile_regex(pattern, options)


@lru_cache(maxsize=512)
def literal_of(pattern: str, options: str) -> Literal | None:
    """Return the literal of a pattern that has only characters and anchors; None for any other."""
    # Of the other options, `s` concerns dots, and `u` has no effect.
    match = _LITERAL.fullmatch(pattern) if not options.strip("isu") else None
    if match is None:
        return None
    start, text, end = match.groups()
    return Literal(_unescaped(text).encode(), bool(start), bool(end), "i" in options)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def literal_prefix(pattern: str, options: str) -> tuple[str, bool]:
    """Return (prefix of every match, True if the prefix is the whole condition); ("", False) if there is none.

    Only a case-sensitive pattern anchored by `^` has a prefix.
    """
    if options not in ("", "s") or not pattern.startswith("^") or "|" in pattern:
        return "", False
    match = _LITERAL_PREFIX.match(pattern, 1)
    if match is None:
        return "", False
    end = match.end()
    suffix = pattern[end:]
    literal = match.group()
    if suffix[:1] in ("*", "?", "{"):
        literal = literal[:-2] if literal[-2:-1] == "\\" else literal[:-1]
    return _unescaped(literal), suffix == "" or (suffix == ".*" and options == "s")
