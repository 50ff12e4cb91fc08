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
_PER_TOKEN = 256
"""Work units charged for a token."""

_SKIPPED = re.compile(r"(?:\s+|--[^\n]*|//[^\n]*)*")
_WORD = re.compile(r"[a-z][a-z0-9_]*", re.IGNORECASE | re.ASCII)
_QUOTED = re.compile(r'"((?:[^"]|"")[^"]*(?:""[^"]*)*)"')
# Each loop over single characters is one of a single set, which needs no step of the matcher per character.
_STRING = re.compile(r"'([^']*(?:''[^']*)*)'|\$\$([^$]*(?:\$(?!\$)[^$]*)*)\$\$")
_OPERATOR = re.compile(r"<=|>=|!=|=|<|>")
_INTEGER = re.compile(r"-?[0-9]+")
_CONSTANT = re.compile(
    r"(?P<UUID>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<HEX>0x[0-9a-f]*)"
    r"|(?P<DURATION>-?(?:[0-9]+(?:mo|ms|us|\u00b5s|ns|y|w|d|h|m|s))+(?![a-z0-9_])"
    r"|-?P(?:[0-9]+[YMWDT]|T[0-9]|[0-9]{4}-)[0-9TYMWDHS:-]*(?![a-z0-9_]))"
    r"|(?P<FLOAT>-?[0-9]+(?:\.[0-9]*(?:e[+-]?[0-9]+)?|e[+-]?[0-9]+)|-?(?:nan|infinity)(?![a-z0-9_]))"
    r"|(?P<INTEGER>-?[0-9]+)"
    r"|(?P<BOOLEAN>(?:true|false)(?![a-z0-9_]))",
    re.IGNORECASE | re.ASCII,
)
_ANYTHING = re.compile(
    rf"{_CONSTANT.pattern}|{_STRING.pattern}|{_QUOTED.pattern}|{_WORD.pattern}|<=|>=|!=|[*(),;=.<>{{}}\[\]+?:-]",
    re.IGNORECASE | re.ASCII,
)

Part = TypeVar("Part")


def after_blanks(text: str, at: int = 0) -> int:
    """Return where the text goes on after the blanks and comments at a place.

    No pattern may begin with those itself: where the rest does not match, it tries all ways of dividing the blanks.
    """
    while True:
        match = _SKIPPED.match(text, at)
        assert match is not None, "the pattern matches nothing, too"
        at = match.end()
        end = text.find("*/", at + 2) if text.startswith("/*", at) else -1
        if end < 0:
            return at
        at = end + 2


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
        match = pattern.match(self.text, self.at)
        if match is not None:
            spend(match.end() - self.at)
            self.at = match.end()
            self._skip()
        return match

    def fail(self) -> NoReturn:
        """Raise the syntax error for an unexpected token."""
        if self.at == len(self.text):
            raise self.error("no viable alternative at input '<EOF>'")
        match = _ANYTHING.match(self.text, self.at)
        if match is None:
            raise self.error(f"no viable alternative at character '{self.text[self.at]}'")
        raise self.error(f"no viable alternative at input '{match.group()}'")

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
        match = _WORD.match(self.text, self.at)
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
        """Take a character that is no part of a word."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
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
        quoted = self._take(_QUOTED)
        if quoted is not None:
            return quoted[1].replace('""', '"')
        word = self.word()
        if word is None or word in RESERVED:
            self.fail()
        self.at += len(word)
        self._skip()
        return word

    def string(self) -> str | None:
        """Take a string, without its quotes."""
        match = self._take(_STRING)
        if match is None:
            return None
        return match[1].replace("''", "'") if match[2] is None else match[2]

    def integer(self) -> Constant | None:
        match = self._take(_INTEGER)
        return None if match is None else Constant(ConstantKind.INTEGER, match.group())

    def constant(self) -> Constant | None:
        """Take a literal."""
        text = self.string()
        if text is not None:
            return Constant(ConstantKind.STRING, text)
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
