"""From text to statements. The grammar is loaded when the first statement comes; statements are kept by their text."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from docstore.cql.errors import syntax, unsupported
from docstore.cql.statements import Statement

if TYPE_CHECKING:
    from lark import Lark

MAX_KEPT = 1000
MAX_KEPT_LENGTH = 4096
"""Longer statements are parsed anew each time: they are seldom seen twice."""

_SKIPPED = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|//[^\n]*(?:\n|$)|/\*[\s\S]*?\*/)*")
_KNOWN = re.compile(
    r"(?:CREATE\s+(?:OR\s+REPLACE\s+)?|ALTER\s+|DROP\s+)"
    r"(?P<element>(?:CUSTOM\s+)?INDEX|TYPE|MATERIALIZED\s+VIEW|FUNCTION|AGGREGATE|TRIGGER|ROLE|USER)\b"
    r"|(?P<statement>GRANT|REVOKE|LIST)\b"
    r"|(?P<json>INSERT\s+INTO\s+\S+\s+JSON)\b",
    re.IGNORECASE,
)
_ELEMENTS = {
    "INDEX": "Secondary indexes are",
    "CUSTOM INDEX": "Secondary indexes are",
    "TYPE": "User-defined types are",
    "MATERIALIZED VIEW": "Materialized views are",
    "FUNCTION": "User-defined functions are",
    "AGGREGATE": "User-defined aggregates are",
    "TRIGGER": "Triggers are",
    "ROLE": "Roles are",
    "USER": "Users are",
}


def parse(text: str) -> Statement:
    """The statement of the text. CqlError for what is none, and for kinds that are known and not served."""
    return _kept(text) if len(text) <= MAX_KEPT_LENGTH else _parsed(text)


def is_ready() -> bool:
    """Whether the grammar has been loaded."""
    return grammar.cache_info().currsize > 0


@lru_cache(maxsize=1)
def grammar() -> Lark:
    """The grammar, ready to parse. Loading it takes a second: a process that must not stand still does that on a thread
    before the first statement.
    """
    from lark import Lark

    from docstore.cql.tree import RULES

    text = resources.files("docstore.cql").joinpath("cql.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="contextual", maybe_placeholders=True, transformer=RULES)


@lru_cache(maxsize=MAX_KEPT)
def _kept(text: str) -> Statement:
    return _parsed(text)


def _parsed(text: str) -> Statement:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    _refuse_known(text)
    try:
        statement: Statement = grammar().parse(text)  # type: ignore[assignment]
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise _at_end(text) from None
        raise syntax(error.line, error.column - 1, f"no viable alternative at input '{error.token}'") from None
    except UnexpectedCharacters as error:
        found = text[error.pos_in_stream or 0]
        raise syntax(error.line, error.column - 1, f"no viable alternative at character '{found}'") from None
    return statement


def _at_end(text: str) -> Exception:
    lines = text.split("\n")
    return syntax(len(lines), len(lines[-1]), "no viable alternative at input '<EOF>'")


def _refuse_known(text: str) -> None:
    """Refuse by name what CQL has and this server does not."""
    begin = _SKIPPED.match(text)
    found = _KNOWN.match(text, 0 if begin is None else begin.end())
    if found is None:
        return
    if found["json"]:
        raise unsupported("INSERT JSON is")
    if found["element"]:
        raise unsupported(_ELEMENTS[" ".join(found["element"].upper().split())])
    raise unsupported(f"{found['statement'].upper()} is")
