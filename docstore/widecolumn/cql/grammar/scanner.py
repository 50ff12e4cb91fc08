"""The tokens of a text, scanned on demand: a word is a keyword only where one is expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from docstore.bson.allowance import spend
from docstore.widecolumn.cql.errors import syntax
from docstore.widecolumn.cql.statements import Constant, ConstantKind

_RESERVED = """
    add allow alter and apply asc authorize batch begin by columnfamily create default delete desc describe drop
    entries execute from full grant if in index infinity insert into is keyspace limit materialized mbean mbeans modify
    nan norecursive not null of on or order primary rename replace revoke schema select set table to token truncate
    unlogged unset update use using view where with
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that are names only in quotes."""

MAX_DEPTH = 100
"""The maximal nesting depth of terms."""
MAX_TOKENS = 131_072
"""The maximal tokens of a statement."""
MAX_WORD_CHARS = 65_536
"""The maximal characters of a word or a number. Only strings, quoted names and blobs may be longer."""
_SHOWN_CHARS = 1024
"""Characters of an unexpected token that its error shows."""
_PER_TOKEN = 256
"""Work units charged for a token."""
_PER_BLANK = 64
"""Work units charged for a comment, or the blanks between two."""
_STEP_CHARS = 65_536
"""Characters of a quoted text that are passed in one step."""

# A matcher is not interrupted: a pattern below is given a bounded text, or is one loop over a single set of characters.
_BLANKS = re.compile(r"\s*")
_WORD = re.compile(r"[a-z][a-z0-9_]*", re.IGNORECASE | re.ASCII)
_INSIDE = {quote: re.compile(f"(?:[^{quote}]++|{quote}{quote})*+") for quote in ("'", '"')}
_BLOB = re.compile(r"0x[0-9a-f]*", re.IGNORECASE | re.ASCII)
_OPERATOR = re.compile(r"<=|>=|!=|=|<|>")
_INTEGER = re.compile(r"-?[0-9]++")
_CONSTANT = re.compile(
    r"(?P<UUID>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<DURATION>-?(?:[0-9]++(?:mo|ms|us|\u00b5s|ns|y|w|d|h|m|s))++(?![a-z0-9_])"
    r"|-?P(?:[0-9]+[YMWDT]|T[0-9]|[0-9]{4}-)[0-9TYMWDHS:-]*(?![a-z0-9_]))"
    r"|(?P<FLOAT>-?[0-9]++(?:\.[0-9]*+(?:e[+-]?[0-9]++)?|e[+-]?[0-9]++)|-?(?:nan|infinity)(?![a-z0-9_]))"
    r"|(?P<INTEGER>-?[0-9]++)"
    r"|(?P<BOOLEAN>(?:true|false)(?![a-z0-9_]))",
    re.IGNORECASE | re.ASCII,
)
_ANYTHING = re.compile(
    rf"{_CONSTANT.pattern}|{_BLOB.pattern}|{_WORD.pattern}|<=|>=|!=|[*(),;=.<>{{}}\[\]+?:-]",
    re.IGNORECASE | re.ASCII,
)

Part = TypeVar("Part")


def after_blanks(text: str, at: int = 0) -> int:
    """Return where the text goes on after the blanks and comments at a place.

    No pattern may begin with those itself: where the rest does not match, it tries all ways of dividing the blanks. No
    more than `MAX_TOKENS` comments in a row are passed.
    """
    for _ in range(MAX_TOKENS):
        match = _BLANKS.match(text, at)
        assert match is not None, "the pattern matches nothing, too"
        start = match.end()
        if text.startswith(("--", "//"), start):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
        elif text.startswith("/*", start):
            end = text.find("*/", start + 2) + 2
            if end < 2:
                return start
        else:
            return start
        spend(_PER_BLANK + end - at)
        at = end
    return at


def _closing(text: str, at: int) -> int:
    """Return the place of the quote that ends the quoted text at a place; -1 if there is none.

    A quote in such a text is doubled.
    """
    inside = _INSIDE[text[at]]
    at += 1
    while True:
        match = inside.match(text, at, at + _STEP_CHARS)
        assert match is not None, "the pattern matches nothing, too"
        end = match.end()
        spend(_PER_BLANK + end - at)
        if end == at:
            return at if at < len(text) else -1
        at = end


def _end_of_quoted(text: str, at: int) -> int | None:
    """Return where the string or quoted name at a place ends; None if there is none."""
    if text.startswith("$$", at):
        end = text.find("$$", at + 2)
        return None if end < 0 else end + 2
    if not text.startswith(("'", '"'), at):
        return None
    end = _closing(text, at)
    return None if end < 0 or (text[at] == '"' and end == at + 1) else end + 1


class Scanner:
    """Stands at a token of `text`: `at` is where it begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._depth = 0
        self._tokens = 0
        self._skip()

    def _skip(self) -> None:
        spend(_PER_TOKEN)
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise self.error(f"a statement has more than {MAX_TOKENS} tokens")
        self.at = after_blanks(self.text, self.at)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = self._match(pattern)
        if match is not None:
            spend(match.end() - self.at)
            self.at = match.end()
            self._skip()
        return match

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a word or a number. Errors: a syntax error if it is too long."""
        end = self.at + MAX_WORD_CHARS
        match = pattern.match(self.text, self.at, end)
        if match is not None and match.end() == end:
            raise self.error(f"a word or a number has more than {MAX_WORD_CHARS} characters")
        return match

    def fail(self) -> NoReturn:
        """Raise the syntax error for an unexpected token, of which it shows the beginning."""
        text, at = self.text, self.at
        if at == len(text):
            raise self.error("no viable alternative at input '<EOF>'")
        end = _end_of_quoted(text, at)
        if end is None:
            match = _ANYTHING.match(text, at, at + _SHOWN_CHARS)
            if match is None:
                raise self.error(f"no viable alternative at character '{text[at]}'")
            end = match.end()
        raise self.error(f"no viable alternative at input '{text[at : min(end, at + _SHOWN_CHARS)]}'")

    def error(self, why: str, at: int | None = None) -> Exception:
        """The syntax error at a place of the text, by default where the scanner stands."""
        before = self.text[: self.at if at is None else at]
        line = before.count("\n")
        return syntax(line + 1, len(before) - before.rfind("\n") - 1, why)

    def enter(self) -> None:
        """Enter a nested term. Errors: a syntax error beyond `MAX_DEPTH`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error("terms are nested too deeply")

    def leave(self) -> None:
        self._depth -= 1

    # Optional and required tokens

    def ended(self) -> bool:
        return self.at == len(self.text)

    def word(self) -> str | None:
        """The word that stands here, in lower case; it is not taken."""
        match = self._match(_WORD)
        if match is None:
            return None
        spend(match.end() - self.at)
        return match.group().lower()

    def accept(self, *words: str) -> str | None:
        """Take one of these keywords."""
        keyword = self.word()
        if keyword not in words:
            return None
        self.at += len(keyword)
        self._skip()
        return keyword

    def expect(self, *words: str) -> str:
        """Take one of these keywords, which must stand here."""
        keyword = self.accept(*words)
        if keyword is None:
            self.fail()
        return keyword

    def accept_sign(self, sign: str) -> bool:
        """Take characters that are no part of a word."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        self._skip()
        return True

    def expect_sign(self, sign: str) -> None:
        if not self.accept_sign(sign):
            self.fail()

    def operator(self) -> str:
        """Take an operator of comparison."""
        match = self._take(_OPERATOR)
        if match is None:
            self.fail()
        return match.group()

    def called(self) -> str | None:
        """Take a word behind which a parenthesis opens, in lower case, and the parenthesis."""
        start, word = self.at, self.word()
        if word is None:
            return None
        self.at += len(word)
        self._skip()
        if self.accept_sign("("):
            return word
        self.at = start
        return None

    def name(self) -> str:
        """Take a name: folded to lower case unless it is quoted."""
        quoted = self._quoted('"')
        if quoted is not None:
            return quoted[1:-1].replace('""', '"')
        word = self.word()
        if word is None or word in RESERVED:
            self.fail()
        self.at += len(word)
        self._skip()
        return word

    def string(self) -> str | None:
        """Take a string, without its quotes."""
        quoted = self._quoted("'", "$$")
        if quoted is None:
            return None
        return quoted[1:-1].replace("''", "'") if quoted[0] == "'" else quoted[2:-2]

    def _quoted(self, *quotes: str) -> str | None:
        """Take a text in one of these quotes, with them."""
        at = self.at
        end = _end_of_quoted(self.text, at) if self.text.startswith(quotes, at) else None
        if end is None:
            return None
        self.at = end
        self._skip()
        return self.text[at:end]

    def integer(self) -> Constant | None:
        match = self._take(_INTEGER)
        return None if match is None else Constant(ConstantKind.INTEGER, match.group())

    def constant(self) -> Constant | None:
        """Take a literal."""
        text = self.string()
        if text is not None:
            return Constant(ConstantKind.STRING, text)
        blob = _BLOB.match(self.text, self.at)
        if blob is not None:
            spend(blob.end() - self.at)
            self.at = blob.end()
            self._skip()
            return Constant(ConstantKind.HEX, blob.group())
        match = self._take(_CONSTANT)
        if match is None:
            return None
        assert match.lastgroup is not None, "every alternative has a name"
        return Constant(ConstantKind(match.lastgroup), match.group())


def listed(scan: Scanner, part: Callable[[Scanner], Part]) -> tuple[Part, ...]:
    """Parts with commas between them, at least one."""
    parts = [part(scan)]
    while scan.accept_sign(","):
        parts.append(part(scan))
    return tuple(parts)


def enclosed(scan: Scanner, part: Callable[[Scanner], Part]) -> tuple[Part, ...]:
    """Parts with commas between them, at least one, in parentheses."""
    scan.expect_sign("(")
    parts = listed(scan, part)
    scan.expect_sign(")")
    return parts


def joined(scan: Scanner, part: Callable[[Scanner], Part]) -> tuple[Part, ...]:
    """Parts with AND between them, at least one."""
    parts = [part(scan)]
    while scan.accept("and"):
        parts.append(part(scan))
    return tuple(parts)
