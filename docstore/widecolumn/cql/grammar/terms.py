"""Names, terms and the conditions of WHERE and IF."""

from __future__ import annotations

from collections.abc import Callable

from docstore.widecolumn.cql.grammar.scanner import Part, Scanner, enclosed, listed
from docstore.widecolumn.cql.statements import (
    AnyRelation,
    Call,
    Constant,
    ListTerm,
    MapTerm,
    Marker,
    Null,
    Operator,
    Relation,
    SetTerm,
    TableName,
    Term,
    TokenRelation,
    TupleRelation,
    TupleTerm,
)


def table_name(scan: Scanner) -> TableName:
    first = scan.name()
    return TableName(first, scan.name()) if scan.accept_sign(".") else TableName(None, first)


def names(scan: Scanner) -> tuple[str, ...]:
    return enclosed(scan, Scanner.name)


def ordering(scan: Scanner) -> tuple[str, bool]:
    """(column, descending)."""
    return scan.name(), scan.accept("asc", "desc") == "desc"


def marker(scan: Scanner) -> Marker | None:
    at = scan.at
    if scan.accept_sign("?"):
        return Marker(at)
    return Marker(at, scan.name()) if scan.accept_sign(":") else None


def number(scan: Scanner) -> Constant | Marker:
    """A whole number, or a marker for one."""
    number_term = scan.integer() or marker(scan)
    if number_term is None:
        scan.fail()
    return number_term


def term(scan: Scanner) -> Term:
    scan.enter()
    parsed_term = _term(scan)
    scan.leave()
    return parsed_term


def _term(scan: Scanner) -> Term:
    simple_term: Term | None = scan.constant() or marker(scan)
    if simple_term is not None:
        return simple_term
    if scan.accept_sign("["):
        return ListTerm(_until(scan, "]", term))
    if scan.accept_sign("("):
        return TupleTerm(_until(scan, ")", term, empty=False))
    if scan.accept_sign("{"):
        return _braces(scan)
    function = scan.called()
    if function is not None:
        return Call(function, _until(scan, ")", term))
    if not scan.accept("null"):
        # Any other word can only be a function's name: the error is at the token after it.
        scan.accept(scan.word() or "")
        scan.fail()
    return Null()


def _until(scan: Scanner, sign: str, part: Callable[[Scanner], Part], *, empty: bool = True) -> tuple[Part, ...]:
    """Parts up to a closing sign."""
    if empty and scan.accept_sign(sign):
        return ()
    parts = listed(scan, part)
    scan.expect_sign(sign)
    return parts


def _braces(scan: Scanner) -> SetTerm | MapTerm:
    if scan.accept_sign("}"):
        return SetTerm(())
    first = term(scan)
    if scan.accept_sign(":"):
        pairs = [(first, term(scan))]
        while scan.accept_sign(","):
            key = term(scan)
            scan.expect_sign(":")
            pairs.append((key, term(scan)))
        scan.expect_sign("}")
        return MapTerm(tuple(pairs))
    items = [first]
    while scan.accept_sign(","):
        items.append(term(scan))
    scan.expect_sign("}")
    return SetTerm(tuple(items))


def _operator(scan: Scanner) -> Operator:
    return Operator(scan.operator())


def _in_terms(scan: Scanner) -> Term:
    bind_marker = marker(scan)
    if bind_marker is not None:
        return bind_marker
    scan.expect_sign("(")
    return TupleTerm(_until(scan, ")", term))


def condition(scan: Scanner) -> Relation:
    """A condition of IF."""
    column = scan.name()
    if scan.accept("in"):
        return Relation(column, Operator.IN, _in_terms(scan))
    return Relation(column, _operator(scan), term(scan))


def relation(scan: Scanner) -> AnyRelation:
    """A condition of WHERE."""
    if scan.accept("token"):
        return TokenRelation(names(scan), _operator(scan), term(scan))
    if scan.text.startswith("(", scan.at):
        columns = names(scan)
        if scan.accept("in"):
            return TupleRelation(columns, Operator.IN, _in_terms(scan))
        return TupleRelation(columns, _operator(scan), term(scan))
    column = scan.name()
    word = scan.accept("in", "contains", "like", "is")
    if word == "in":
        return Relation(column, Operator.IN, _in_terms(scan))
    if word == "contains":
        operator = Operator.CONTAINS_KEY if scan.accept("key") else Operator.CONTAINS
        return Relation(column, operator, term(scan))
    if word == "like":
        return Relation(column, Operator.LIKE, term(scan))
    if word == "is":
        scan.expect("not")
        scan.expect("null")
        return Relation(column, Operator.IS_NOT_NULL, Null())
    return Relation(column, _operator(scan), term(scan))
