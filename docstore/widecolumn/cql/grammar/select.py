"""SELECT."""

from __future__ import annotations

from docstore.widecolumn.cql.grammar.scanner import Scanner, joined, listed
from docstore.widecolumn.cql.grammar.terms import number, ordering, relation, table_name
from docstore.widecolumn.cql.statements import Call, ColumnName, Expression, Select, Selector, Star


def select(scan: Scanner) -> Select:
    """Parse the rest of a statement after SELECT."""
    json = scan.accept("json") is not None
    distinct = scan.accept("distinct") is not None
    selected = () if scan.accept_sign("*") else listed(scan, _selected)
    scan.expect("from")
    table = table_name(scan)
    where = joined(scan, relation) if scan.accept("where") else ()
    group = listed(scan, Scanner.name) if _by(scan, "group") else ()
    order = listed(scan, ordering) if _by(scan, "order") else ()
    partition_limit = None
    if scan.accept("per"):
        scan.expect("partition")
        scan.expect("limit")
        partition_limit = number(scan)
    limit = number(scan) if scan.accept("limit") else None
    filtering = scan.accept("allow") is not None
    if filtering:
        scan.expect("filtering")
    return Select(table, selected, where, distinct, json, group, order, partition_limit, limit, filtering)


def _by(scan: Scanner, word: str) -> bool:
    if not scan.accept(word):
        return False
    scan.expect("by")
    return True


def _selected(scan: Scanner) -> Selector:
    expression = _expression(scan)
    return Selector(expression, scan.name() if scan.accept("as") else None)


def _expression(scan: Scanner) -> Expression:
    constant = scan.constant()
    if constant is not None:
        return constant
    function = scan.called()
    if function is None:
        return ColumnName(scan.name())
    scan.enter()
    arguments: tuple[Expression, ...] = ()
    if not scan.accept_sign(")"):
        arguments = listed(scan, _argument)
        scan.expect_sign(")")
    scan.leave()
    return Call(function, arguments)


def _argument(scan: Scanner) -> Expression:
    return Star() if scan.accept_sign("*") else _expression(scan)
