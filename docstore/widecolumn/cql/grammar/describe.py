"""DESCRIBE."""

from __future__ import annotations

from docstore.widecolumn.cql.grammar.scanner import Scanner
from docstore.widecolumn.cql.grammar.terms import table_name
from docstore.widecolumn.cql.statements import Describe, DescribeKind

_LISTS = {
    "keyspaces": DescribeKind.KEYSPACES,
    "tables": DescribeKind.TABLES,
    "columnfamilies": DescribeKind.TABLES,
    "types": DescribeKind.TYPES,
    "functions": DescribeKind.FUNCTIONS,
    "aggregates": DescribeKind.AGGREGATES,
    "schema": DescribeKind.SCHEMA,
    "cluster": DescribeKind.CLUSTER,
}
_ELEMENTS = ("index", "type", "function", "aggregate")


def describe(scan: Scanner) -> Describe:
    """Parse the rest of a statement after DESCRIBE or DESC."""
    if scan.accept("full"):
        scan.expect("schema")
        return Describe(DescribeKind.SCHEMA)
    listed = scan.accept(*_LISTS)
    if listed is not None:
        return Describe(_LISTS[listed])
    if scan.accept("keyspace"):
        return Describe(
            DescribeKind.KEYSPACE, None if scan.ended() or scan.text.startswith(";", scan.at) else scan.name()
        )
    if scan.accept("table", "columnfamily"):
        return _named(scan, DescribeKind.TABLE)
    return _named(scan, DescribeKind.ELEMENT if scan.accept(*_ELEMENTS) else DescribeKind.NAME)


def _named(scan: Scanner, kind: DescribeKind) -> Describe:
    table = table_name(scan)
    return Describe(kind, table.name, table.keyspace)
