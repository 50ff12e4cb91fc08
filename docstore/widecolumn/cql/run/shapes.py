"""Shapes: statements that differ only in their literals have one shape, the text with markers in place of the
literals.

Only statements that read and write rows have a shape, and only without markers of their own. Invariant: a statement
is prepared without its shape if the shape cannot be prepared, or if a literal does not fit its marker. So a shape
never admits a statement that would be refused, and never changes an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.parser import parse
from docstore.widecolumn.cql.plan.bindings import Variable
from docstore.widecolumn.cql.plan.terms import Receiver, constant_bytes
from docstore.widecolumn.cql.statements import Constant, ConstantKind, Statement

Shape = tuple[str, list[Constant]]
"""The text with markers, and the literals in whose places they stand."""

_FIRST = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|BEGIN)\b", re.IGNORECASE | re.ASCII)
_UNCOMMON = re.compile(r'["$?:/-]')
"""Characters outside of strings that may begin a comment, a quoted name, a marker, a UUID or a negative number."""

# A digit first, so that the text is searched for digits and for nothing else.
_NUMBER = re.compile(r"[0-9](?<!\w[0-9])(?:[0-9]*(?P<fraction>\.[0-9]*)?(?![\w.])|(?P<odd>))")
_PARTS = re.compile(
    r"(?P<string>'(?:[^']|'')*')"
    r'|(?P<kept>"(?:[^"]|"")+"|--[^\n]*|//[^\n]*|/\*[\s\S]*?\*/)'
    r"|(?<!\w)(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?!\w)"
    r"|(?<!\w)(?P<hex>0x[0-9a-f]*)(?!\w)"
    r"|(?<!\w)(?P<number>-?[0-9]+(?P<fraction>\.[0-9]*)?)(?![\w.])"
    r"|(?P<odd>[?:$]|(?<!\w)[0-9])",
    re.IGNORECASE | re.ASCII,
)


def shape_of(text: str) -> Shape | None:
    """The shape of a statement; None where it has none."""
    if not _FIRST.match(text):
        return None
    parts = text.split("'")
    if not len(parts) % 2:
        # A quotation mark that is no string's: in a comment or a name, or a mistake.
        return _any_shape(text)
    pieces: list[str] = []
    literals: list[Constant] = []
    at, last = 0, len(parts) - 1
    while True:
        outside = parts[at]
        if _UNCOMMON.search(outside) or not _take_numbers(outside, pieces, literals):
            return _any_shape(text)
        if at == last:
            break
        string = parts[at + 1]
        at += 2
        while at < last and not parts[at]:
            string += "'" + parts[at + 1]
            at += 2
        pieces.append("?")
        literals.append(Constant(ConstantKind.STRING, string))
    return ("".join(pieces), literals) if literals else None


def _take_numbers(outside: str, pieces: list[str], literals: list[Constant]) -> bool:
    """Part a text without strings; False where something else begins with a digit."""
    at = 0
    for match in _NUMBER.finditer(outside):
        if match["odd"] is not None:
            return False
        start, end = match.span()
        pieces += (outside[at:start], "?")
        literals.append(
            Constant(ConstantKind.INTEGER if match["fraction"] is None else ConstantKind.FLOAT, outside[start:end])
        )
        at = end
    pieces.append(outside[at:])
    return True


def _any_shape(text: str) -> Shape | None:
    """The shape of a statement with anything in it."""
    pieces: list[str] = []
    literals: list[Constant] = []
    at = 0
    for match in _PARTS.finditer(text):
        kind = match.lastgroup
        if kind == "kept":
            continue
        if kind == "odd":
            return None
        start, end = match.span()
        pieces += (text[at:start], "?")
        literals.append(_literal(match, kind, text[start:end]))
        at = end
    if not literals:
        return None
    pieces.append(text[at:])
    return "".join(pieces), literals


def _literal(found: re.Match[str], kind: str | None, text: str) -> Constant:
    if kind == "string":
        return Constant(ConstantKind.STRING, text[1:-1].replace("''", "'"))
    if kind == "uuid":
        return Constant(ConstantKind.UUID, text)
    if kind == "hex":
        return Constant(ConstantKind.HEX, text)
    return Constant(ConstantKind.INTEGER if found["fraction"] is None else ConstantKind.FLOAT, text)


def statement_of(text: str) -> Statement:
    """The statement of a text as far as it does not depend on its literals: its kind, names and tables. CqlError.

    Texts of one shape are parsed once.
    """
    shaped = shape_of(text)
    if shaped is not None:
        with suppress(CqlError):
            return parse(shaped[0])
    return parse(text)


def literal_values(variables: Sequence[Variable], literals: Sequence[Constant]) -> dict[int, bytes]:
    """The values of literals by the positions of their markers. CqlError for one that is none of its marker's type."""
    return {
        variable.position: constant_bytes(literal, Receiver(variable.name, variable.type))
        for variable, literal in zip(variables, literals, strict=True)
    }
