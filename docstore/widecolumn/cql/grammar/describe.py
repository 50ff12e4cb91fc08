"""DESCRIBE."""

from __future__ import annotations

from docstore.widecolumn.cql.grammar.scanner import Scanner
from docstore.widecolumn.cql.grammar.terms import table_name
from docstore.widecolumn.cql.statements import Describe, Described

_LISTS = {
    "keyspaces": Described.KEYSPACES,
    "tables": Described.TABLES,
    "columnfamilies": Described.TABLES,
    "types": Described.TYPES,
    "functions": Described.FUNCTIONS,
    "aggregates": Described.AGGREGATES,
    "schema": Described.SCHEMA,
    "cluster": Described.CLUSTER,
}
_ELEMENTS = ("index", "type", "function", "aggregate")


def describe(scan: Scanner) -> Describe:
    """What follows DESCRIBE or DESC."""
    if scan.accept("full"):
        scan.expect("schema")
        return Describe(Described.SCHEMA)
    listed = scan.accept(*_LISTS)
    if listed is not None:
        return Describe(_LISTS[listed])
    if scan.accept("keyspace"):
        return Describe(Described.KEYSPACE, None if scan.ended() or scan.text.startswith(";", scan.at) else scan.name())
    if scan.accept("table", "columnfamily"):
        return _named(scan, Described.TABLE)
    return _named(scan, Described.ELEMENT if scan.accept(*_ELEMENTS) else Described.NAME)


def _named(scan: Scanner, what: Described) -> Describe:
    found = table_name(scan)
    return Describe(what, found.name, found.keyspace)
