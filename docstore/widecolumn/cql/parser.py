"""From text to statements (`docstore.widecolumn.cql.grammar`), which are kept by their text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from docstore.query.pausing import PAUSED, allowing
from docstore.widecolumn.cql.errors import unsupported
from docstore.widecolumn.cql.grammar.definitions import alter, create, drop, truncate, use
from docstore.widecolumn.cql.grammar.describe import describe
from docstore.widecolumn.cql.grammar.modifications import batch, modification
from docstore.widecolumn.cql.grammar.scanner import Scanner, after_blanks
from docstore.widecolumn.cql.grammar.select import select
from docstore.widecolumn.cql.statements import Statement

MAX_KEPT = 1000
MAX_KEPT_LENGTH = 4096
"""Longer statements are parsed anew each time: they are seldom seen twice."""

_KNOWN = re.compile(
    r"(?:CREATE\s+(?:OR\s+REPLACE\s+)?|ALTER\s+|DROP\s+)"
    r"(?P<element>(?:CUSTOM\s+)?INDEX|TYPE|MATERIALIZED\s+VIEW|FUNCTION|AGGREGATE|TRIGGER)\b"
    r"|(?P<json>INSERT\s+INTO\s+\S+\s+JSON)\b",
    re.IGNORECASE | re.ASCII,
)
_ELEMENTS = {
    "INDEX": "Secondary indexes are",
    "CUSTOM INDEX": "Secondary indexes are",
    "TYPE": "User-defined types are",
    "MATERIALIZED VIEW": "Materialized views are",
    "FUNCTION": "User-defined functions are",
    "AGGREGATE": "User-defined aggregates are",
    "TRIGGER": "Triggers are",
}
_STATEMENTS: dict[str, Callable[[Scanner], Statement]] = {
    "use": use,
    "create": create,
    "alter": alter,
    "drop": drop,
    "truncate": truncate,
    "select": select,
    "begin": batch,
    "describe": describe,
    "desc": describe,
}


def parse(text: str) -> Statement:
    """Parse a statement. CqlError for malformed ones, and for known kinds that are not supported."""
    return _parse_cached(text) if len(text) <= MAX_KEPT_LENGTH else allowing(PAUSED, _parsed, text)


@lru_cache(maxsize=MAX_KEPT)
def _parse_cached(text: str) -> Statement:
    return _parsed(text)


def _parsed(text: str) -> Statement:
    _refuse_known(text)
    scan = Scanner(text)
    read = _STATEMENTS.get(scan.word() or "")
    if read is None:
        statement: Statement = modification(scan)
    else:
        scan.expect(*_STATEMENTS)
        statement = read(scan)
    scan.accept_sign(";")
    if not scan.ended():
        scan.fail()
    return statement


def _refuse_known(text: str) -> None:
    """Raise a specific error for CQL statements that this server does not support."""
    at = after_blanks(text)
    match = _KNOWN.match(text, at, at + MAX_KEPT_LENGTH)
    if match is None:
        return
    if match["json"]:
        raise unsupported("INSERT JSON is")
    raise unsupported(_ELEMENTS[" ".join(match["element"].upper().split())])
