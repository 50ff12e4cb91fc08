"""USE, and CREATE, ALTER, DROP and TRUNCATE of keyspaces and tables."""

from __future__ import annotations

from collections.abc import Callable

from docstore.widecolumn.cql.grammar.scanner import Scanner, enclosed, joined, listed
from docstore.widecolumn.cql.grammar.terms import names, ordering, table_name
from docstore.widecolumn.cql.statements import (
    AddColumns,
    AlterColumnType,
    AlterKeyspace,
    AlterTable,
    ColumnDefinition,
    ConstantKind,
    CreateKeyspace,
    CreateTable,
    DropColumns,
    DropKeyspace,
    DropTable,
    PrimaryKey,
    Properties,
    PropertyValue,
    RenameColumns,
    SchemaChange,
    TableOptions,
    Truncate,
    TypeName,
    Use,
)

_KEYSPACE = ("keyspace", "schema")
_TABLE = ("table", "columnfamily")
_VALUES = (ConstantKind.INTEGER, ConstantKind.FLOAT, ConstantKind.BOOLEAN, ConstantKind.STRING)


def use(scan: Scanner) -> Use:
    return Use(scan.name())


def create(scan: Scanner) -> SchemaChange:
    if scan.expect(*_KEYSPACE, *_TABLE) in _KEYSPACE:
        absent = _if_not_exists(scan)
        return CreateKeyspace(scan.name(), absent, _properties(scan) if scan.accept("with") else ())
    absent = _if_not_exists(scan)
    table = table_name(scan)
    definitions = enclosed(scan, _definition)
    options = _table_options(scan) if scan.accept("with") else TableOptions()
    columns = tuple(part for part in definitions if isinstance(part, ColumnDefinition))
    keys = tuple(part for part in definitions if isinstance(part, PrimaryKey))
    return CreateTable(table, absent, columns, keys, options)


def alter(scan: Scanner) -> SchemaChange:
    if scan.expect(*_KEYSPACE, *_TABLE) in _KEYSPACE:
        present = _if_exists(scan)
        name = scan.name()
        scan.expect("with")
        return AlterKeyspace(name, present, _properties(scan))
    present = _if_exists(scan)
    table = table_name(scan)
    return AlterTable(table, present, _CHANGES[scan.expect(*_CHANGES)](scan))


def drop(scan: Scanner) -> SchemaChange:
    if scan.expect(*_KEYSPACE, *_TABLE) in _KEYSPACE:
        present = _if_exists(scan)
        return DropKeyspace(scan.name(), present)
    present = _if_exists(scan)
    return DropTable(table_name(scan), present)


def truncate(scan: Scanner) -> Truncate:
    scan.accept(*_TABLE)
    return Truncate(table_name(scan))


def _if_not_exists(scan: Scanner) -> bool:
    if not scan.accept("if"):
        return False
    scan.expect("not")
    scan.expect("exists")
    return True


def _if_exists(scan: Scanner) -> bool:
    if not scan.accept("if"):
        return False
    scan.expect("exists")
    return True


# Options


def _properties(scan: Scanner) -> Properties:
    return joined(scan, _property)


def _property(scan: Scanner) -> tuple[str, PropertyValue]:
    name = scan.name()
    scan.expect_sign("=")
    if not scan.accept_sign("{"):
        return name, _text(scan)
    if scan.accept_sign("}"):
        return name, ()
    pairs = listed(scan, _pair)
    scan.expect_sign("}")
    return name, pairs


def _pair(scan: Scanner) -> tuple[str, str]:
    key = _text(scan)
    scan.expect_sign(":")
    return key, _text(scan)


def _text(scan: Scanner) -> str:
    """Return the text of a value: a string without its quotes, anything else as written."""
    start = scan.at
    constant = scan.constant()
    if constant is not None and constant.kind in _VALUES:
        return constant.text
    scan.at = start
    word = scan.word()
    if word is None:
        scan.fail()
    scan.expect(word)
    return scan.text[start : start + len(word)]


def _table_options(scan: Scanner) -> TableOptions:
    """Parse options in any order; of repeated ones the last counts."""
    options = TableOptions()
    for part in joined(scan, _table_option):
        properties = (*options.properties, *part.properties)
        options = TableOptions(properties, part.order or options.order, part.compact or options.compact)
    return options


def _table_option(scan: Scanner) -> TableOptions:
    if scan.accept("compact"):
        scan.expect("storage")
        return TableOptions(compact=True)
    if scan.accept("clustering"):
        scan.expect("order")
        scan.expect("by")
        return TableOptions(order=enclosed(scan, ordering))
    return TableOptions((_property(scan),))


# Columns


def _definition(scan: Scanner) -> ColumnDefinition | PrimaryKey:
    if not scan.accept("primary"):
        return _column(scan)
    scan.expect("key")
    scan.expect_sign("(")
    partition = names(scan) if scan.text.startswith("(", scan.at) else (scan.name(),)
    clustering = listed(scan, Scanner.name) if scan.accept_sign(",") else ()
    scan.expect_sign(")")
    return PrimaryKey(partition, clustering)


def _column(scan: Scanner) -> ColumnDefinition:
    name, kind = scan.name(), _type(scan)
    static = scan.accept("static") is not None
    primary = scan.accept("primary") is not None
    if primary:
        scan.expect("key")
    return ColumnDefinition(name, kind, static, primary)


def _type(scan: Scanner) -> TypeName:
    custom = scan.string()
    if custom is not None:
        return TypeName(f"'{custom}'")
    scan.enter()
    is_set = scan.accept("set") is not None
    name = "set" if is_set else scan.name()
    parameters: tuple[TypeName, ...] = ()
    if is_set:
        scan.expect_sign("<")
        parameters = (_type(scan),)
        scan.expect_sign(">")
    elif scan.accept_sign("<"):
        parameters = listed(scan, _type)
        scan.expect_sign(">")
    scan.leave()
    return TypeName(name, parameters)


def _add(scan: Scanner) -> AddColumns:
    return AddColumns(enclosed(scan, _column) if scan.text.startswith("(", scan.at) else listed(scan, _column))


def _drop_columns(scan: Scanner) -> DropColumns:
    return DropColumns(names(scan) if scan.text.startswith("(", scan.at) else listed(scan, Scanner.name))


def _rename(scan: Scanner) -> RenameColumns:
    return RenameColumns(joined(scan, _renaming))


def _renaming(scan: Scanner) -> tuple[str, str]:
    name = scan.name()
    scan.expect("to")
    return name, scan.name()


def _alter_type(scan: Scanner) -> AlterColumnType:
    name = scan.name()
    scan.expect("type")
    return AlterColumnType(name, _type(scan))


_CHANGES: dict[str, Callable[[Scanner], AddColumns | DropColumns | RenameColumns | AlterColumnType | TableOptions]] = {
    "add": _add,
    "drop": _drop_columns,
    "rename": _rename,
    "alter": _alter_type,
    "with": _table_options,
}
