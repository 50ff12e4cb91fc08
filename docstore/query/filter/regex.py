"""Regular expressions: PCRE2, as in MongoDB, with bounded backtracking.

- Options are MongoDB's `i m s x u`.
- `\\d \\w \\b` and the POSIX classes are ASCII; caseless comparison of letters follows Unicode.
- A search that exceeds the match limit does not match; what the limit does not count is charged to the request.
- Python's `re`, several times faster, replaces PCRE2 if it provably means the same and backtracks at most linearly.
  This holds for plain characters, dots, anchors and one `.*` after `^`, with no option but `s`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from sys import maxsize
from typing import NamedTuple, cast

import pcre2

from docstore.bson.allowance import spend
from docstore.errors import Code, CommandError
from docstore.query.limits import MAX_PATTERN_BYTES

Search = Callable[[str], bool]
"""Returns a truthy value if a string matches."""

MATCH_LIMIT = 100_000
"""Most backtracking steps from one place of a string (about 2 ms)."""
MAX_STEPS = 1_000_000
"""Most steps of an interpreted search; then it does not match."""

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
_WALKING = re.compile(r"\\[1-9gk]|\(\?(?:[=!>&(*R0-9+-]|<[=!*]|P[=>])|\(\*|[*+?}]\+")
"""Back references, lookarounds, atomic groups, recursion, conditions, verbs and possessive quantifiers."""
_COUNTED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_MOST_COUNTED = 100
"""The product of the counts of a pattern's repetitions from which on a search is charged."""
_MAX_FREE_COST = 20_000
"""Letters of such a pattern times letters of a text that are searched without charge: less than a few milliseconds."""
_PER_STEP = 64
_GO_ON, _GIVE_UP = int(pcre2.CalloutReturn.PASS), int(pcre2.CalloutReturn.ABORT)
_TEXT_SHIFT = 3
_AUTO_CALLOUT = 4
"""PCRE2_AUTO_CALLOUT, which the library has no name for."""
_STACK = "JIT stack limit"


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


class CompiledPattern:
    """A pattern. Searches raise pcre2.LibraryError at the match limit.

    The limit counts what a search tries again, not what it walks meanwhile: a lookaround, a back reference or a counted
    repetition walks a long text at each place. Where that may take long, or machine code finds its stack too small,
    the search is interpreted and charged step by step (`docstore.bson.allowance`), so that it is interrupted with its
    request.
    """

    __slots__ = ("_flags", "_long_text", "_search", "_source")

    def __init__(self, pattern: str, options: str) -> None:
        _check(pattern, options)
        self._flags = pcre2.ASCII
        for letter in options:
            self._flags |= _FLAGS[letter]
        self._source = f"(*LIMIT_MATCH={MATCH_LIMIT}){pattern}"
        self._long_text = _MAX_FREE_COST // (len(pattern) + 1) if _walks_unlimited(pattern) else maxsize
        self._search = self._compiled().search

    def _compiled(self) -> pcre2.Pattern[str]:
        try:
            return pcre2.compile(self._source, self._flags)
        except pcre2.PatternError as error:
            raise CommandError(51091, f"Regular expression is invalid: {str(error).partition('; ')[2]}") from None
        except pcre2.LibraryError:  # a good pattern beyond what the compiler to machine code takes
            return pcre2.compile(self._source, self._flags, jit=False)

    def search(self, text: str, at: int = 0) -> pcre2.Match[str] | None:
        """Return the first match that begins at the character `at` or behind it."""
        if len(text) < self._long_text:
            try:
                return self._search(text, at)
            except pcre2.LibraryError as error:
                if _STACK not in str(error):
                    raise
        return self._search_in_steps(text, at)

    def _search_in_steps(self, text: str, at: int) -> pcre2.Match[str] | None:
        """Search, charging each step for the text that it may walk. Errors: those of the charge."""
        failure: BaseException | None = None
        steps = 0
        cost = _PER_STEP + (len(text) >> _TEXT_SHIFT)

        def charge(_step: object) -> int:
            nonlocal failure, steps
            steps += 1
            try:
                spend(cost)
            except BaseException as error:
                failure = error
            return _GIVE_UP if failure is not None or steps > MAX_STEPS else _GO_ON

        stepping = pcre2.compile(self._source, self._flags | _AUTO_CALLOUT, jit=False, callout=charge)
        try:
            match = stepping.search(text, at)
        finally:
            if failure is not None:
                raise failure
        return match


def _walks_unlimited(pattern: str) -> bool:
    """Return whether a search may walk much text that the match limit does not count."""
    if _WALKING.search(pattern):
        return True
    product = 1
    for least, most in _COUNTED.findall(pattern):
        product *= min(int(most or least), _MOST_COUNTED) or 1
    return product >= _MOST_COUNTED


compile_pattern = lru_cache(maxsize=512)(CompiledPattern)
"""Return the compiled pattern. Errors as `compile_regex`."""


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
