"""INSERT, UPDATE, DELETE and BATCH."""

from __future__ import annotations

from docstore.widecolumn.cql.grammar.scanner import Scanner, enclosed, joined, listed
from docstore.widecolumn.cql.grammar.terms import condition, names, number, relation, table_name, term
from docstore.widecolumn.cql.statements import (
    Assignment,
    Batch,
    BatchKind,
    Delete,
    DeletionTarget,
    Insert,
    Modification,
    Relation,
    Update,
    Using,
)


def modification(scan: Scanner) -> Modification:
    """Parse a whole modification."""
    word = scan.expect("insert", "update", "delete")
    return _insert(scan) if word == "insert" else _update(scan) if word == "update" else _delete(scan)


def batch(scan: Scanner) -> Batch:
    """Parse the rest of a statement after BEGIN."""
    kind = scan.accept("unlogged", "counter")
    scan.expect("batch")
    using = _using(scan)
    members: list[Modification] = []
    while not scan.accept("apply"):
        members.append(modification(scan))
        scan.accept_sign(";")
    scan.expect("batch")
    return Batch(BatchKind.LOGGED if kind is None else BatchKind(kind.upper()), using, tuple(members))


def _using(scan: Scanner) -> Using:
    using = Using()
    if not scan.accept("using"):
        return using
    for part in joined(scan, _using_part):
        using = Using(part.timestamp or using.timestamp, part.ttl or using.ttl)
    return using


def _using_part(scan: Scanner) -> Using:
    word = scan.expect("timestamp", "ttl")
    return Using(timestamp=number(scan)) if word == "timestamp" else Using(ttl=number(scan))


def _insert(scan: Scanner) -> Insert:
    scan.expect("into")
    table = table_name(scan)
    columns = names(scan)
    scan.expect("values")
    values = enclosed(scan, term)
    absent = scan.accept("if") is not None
    if absent:
        scan.expect("not")
        scan.expect("exists")
    return Insert(table, columns, values, absent, _using(scan))


def _update(scan: Scanner) -> Update:
    table = table_name(scan)
    using = _using(scan)
    scan.expect("set")
    assignments = listed(scan, _assignment)
    scan.expect("where")
    where = joined(scan, relation)
    return Update(table, using, assignments, where, _conditions(scan))


def _conditions(scan: Scanner) -> tuple[Relation, ...] | None:
    if not scan.accept("if"):
        return None
    return () if scan.accept("exists") else joined(scan, condition)


def _assignment(scan: Scanner) -> Assignment:
    column = scan.name()
    if scan.accept_sign("["):
        element = term(scan)
        scan.expect_sign("]")
        scan.expect_sign("=")
        return Assignment(column, term(scan), element=element)
    for sign in ("+", "-"):
        if scan.accept_sign(f"{sign}="):
            return Assignment(column, term(scan), sign)
    scan.expect_sign("=")
    other = _summand(scan)
    if other is not None:
        at = scan.at
        sign = "+" if scan.accept_sign("+") else "-"
        if sign == "-":
            scan.expect_sign("-")
        value = term(scan)
        _check_same(scan, column, other, at)
        return Assignment(column, value, sign)
    value = term(scan)
    at = scan.at
    if scan.accept_sign("+"):
        _check_same(scan, column, scan.name(), at)
        return Assignment(column, value, "prepend")
    return Assignment(column, value)


def _summand(scan: Scanner) -> str | None:
    """Return the column that a sum adds to or subtracts from; None, consuming nothing, where no sum begins."""
    start = scan.at
    if scan.text.startswith('"', start):
        return scan.name()
    if scan.constant() is None and scan.called() is None and scan.word() not in (None, "null"):
        return scan.name()
    scan.at = start
    return None


def _check_same(scan: Scanner, column: str, other: str, at: int) -> None:
    if column != other:
        raise scan.error("Only expressions of the form X = X +<value> or X = <value> + X are supported.", at)


def _delete(scan: Scanner) -> Delete:
    targets: tuple[DeletionTarget, ...] = ()
    if not scan.accept("from"):
        targets = listed(scan, _target)
        scan.expect("from")
    table = table_name(scan)
    using = _using(scan)
    scan.expect("where")
    where = joined(scan, relation)
    return Delete(table, targets, using, where, _conditions(scan))


def _target(scan: Scanner) -> DeletionTarget:
    column = scan.name()
    if not scan.accept_sign("["):
        return DeletionTarget(column)
    element = term(scan)
    scan.expect_sign("]")
    return DeletionTarget(column, element)
