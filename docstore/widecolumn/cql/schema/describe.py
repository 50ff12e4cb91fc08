"""DESCRIBE: the schema as rows, with the statements that make it anew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from docstore.widecolumn.cql.errors import invalid, no_keyspace
from docstore.widecolumn.cql.grammar.scanner import RESERVED
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.run.results import Rows
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table, table_of
from docstore.widecolumn.cql.statements import Describe, DescribeKind
from docstore.widecolumn.cql.types.native import TEXT
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.executor import StoredFamily

_PLAIN = re.compile(r"[a-z][a-z0-9_]*")
_NAMED = ("keyspace_name", "type", "name")
_NOTHING = (DescribeKind.TYPES, DescribeKind.FUNCTIONS, DescribeKind.AGGREGATES)
_CLUSTER = "Docstore"


class SchemaReader(Protocol):
    """The schema as DESCRIBE and USE read it; an `Executor` is one."""

    async def keyspaces(self) -> list[Keyspace]:
        """All of them."""

    async def keyspace(self, name: str) -> Keyspace | None:
        """The keyspace of that name."""

    async def families(self, keyspace: str) -> list[StoredFamily]:
        """The column families of a keyspace, in the order of their names."""


Element = tuple[str, str, str, str]
"""(keyspace, kind, name, statement that makes it)"""


async def describe(schema: SchemaReader, statement: Describe, in_use: str | None) -> Rows:
    """Return the rows of a DESCRIBE. CqlError if the named element does not exist."""
    kind = statement.kind
    if kind is DescribeKind.CLUSTER:
        return await _cluster(schema, in_use)
    if kind is DescribeKind.KEYSPACES:
        return _listed([(name, "keyspace", name) for name in await _keyspaces(schema)])
    if kind in _NOTHING:
        return _listed([])
    if kind is DescribeKind.TABLES:
        names = await _keyspaces(schema) if in_use is None else [in_use]
        return _listed([(name, "table", table.name) for name in names for table in await _tables(schema, name)])
    return _statement_rows(await _elements(schema, statement, in_use))


async def _elements(schema: SchemaReader, statement: Describe, in_use: str | None) -> list[Element]:
    kind, name = statement.kind, statement.name
    if kind is DescribeKind.SCHEMA:
        return [
            element
            for keyspace_name in await _keyspaces(schema)
            for element in await _keyspace_elements(schema, keyspace_name)
        ]
    if kind is DescribeKind.KEYSPACE:
        target_keyspace = name or in_use
        if target_keyspace is None:
            raise invalid("No keyspace specified and no current keyspace")
        return await _keyspace_elements(schema, target_keyspace)
    if kind is DescribeKind.NAME and statement.keyspace is None:
        assert name is not None, "the statement names something"
        if await schema.keyspace(name) is not None:
            return await _keyspace_elements(schema, name)
        if in_use is None:
            raise invalid(f"'{name}' not found in keyspaces")
    space = statement.keyspace or in_use
    assert name is not None, "the statement names something"
    if space is None:
        raise invalid("No keyspace specified and no current keyspace")
    if await schema.keyspace(space) is None:
        raise invalid(f"'{space}' not found in keyspaces") if statement.keyspace else no_keyspace(space)
    for table in await _tables(schema, space) if kind in (DescribeKind.TABLE, DescribeKind.NAME) else ():
        if table.name == name:
            return [(space, "table", name, table_statement(table))]
    if kind is DescribeKind.TABLE:
        raise invalid(f"Table '{name}' not found in keyspace '{space}'")
    raise invalid(f"'{name}' not found in keyspace '{space}'")


async def _keyspace_elements(schema: SchemaReader, name: str) -> list[Element]:
    """Return the rows of a keyspace and its elements."""
    keyspace = await schema.keyspace(name)
    if keyspace is None:
        raise invalid(f"'{name}' not found in keyspaces")
    rows: list[Element] = [(name, "keyspace", name, keyspace_statement(keyspace))]
    return rows + [(name, "table", table.name, table_statement(table)) for table in await _tables(schema, name)]


async def _keyspaces(schema: SchemaReader) -> list[str]:
    return sorted(keyspace.name for keyspace in await schema.keyspaces())


async def _tables(schema: SchemaReader, keyspace: str) -> list[Table]:
    """The tables of a keyspace in the order of their names; column families are none."""
    tables = [table_of(*stored) for stored in await schema.families(keyspace) if stored.definition.table is not None]
    return sorted(tables, key=lambda table: table.name)


async def _cluster(schema: SchemaReader, in_use: str | None) -> Rows:
    keyspace = None if in_use is None else await schema.keyspace(in_use)
    partitioner = (Keyspace(name="") if keyspace is None else keyspace).partitioner.name
    return _rows(("cluster", "partitioner", "snitch"), [(_CLUSTER, partitioner, "SimpleSnitch")])


def _listed(rows: Sequence[tuple[str, ...]]) -> Rows:
    return _rows(_NAMED, rows)


def _statement_rows(elements: Sequence[Element]) -> Rows:
    return _rows((*_NAMED, "create_statement"), elements)


def _rows(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Rows:
    columns = tuple(ResultColumn("system", "describe", name, TEXT) for name in names)
    return Rows(columns, [tuple(text.encode() for text in row) for row in rows])


# The statements


def keyspace_statement(keyspace: Keyspace) -> str:
    """The CREATE KEYSPACE that makes a keyspace as this one."""
    replication = replication_of(keyspace)
    durable = str(keyspace.durable_writes).lower()
    options = f"replication = {_map(replication)} AND durable_writes = {durable}"
    return f"CREATE KEYSPACE {written(keyspace.name)} WITH {options};"


def replication_of(keyspace: Keyspace) -> dict[str, Any]:
    """The options of a keyspace's replication."""
    replication: dict[str, Any] = {"class": keyspace.strategy.rpartition(".")[2]}
    if keyspace.datacenters:
        replication.update(keyspace.datacenters)
    elif keyspace.replication_factor is not None:
        replication["replication_factor"] = keyspace.replication_factor
    return replication


def table_statement(table: Table) -> str:
    """The CREATE TABLE that makes a table as this one."""
    lines = [f"    {_definition(column)}" for column in table.columns]
    lines.append(f"    PRIMARY KEY ({_key(table)})")
    options = []
    if table.clustering:
        orders = [f"{written(column.name)} {'DESC' if column.descending else 'ASC'}" for column in table.clustering]
        options.append(f"CLUSTERING ORDER BY ({', '.join(orders)})")
    table_properties = {
        **table.properties,
        "comment": table.comment,
        "default_time_to_live": table.default_ttl,
        "gc_grace_seconds": table.gc_grace_seconds,
    }
    options += [f"{name} = {_property(table_properties[name])}" for name in sorted(table_properties)]
    name = f"{written(table.keyspace.name)}.{written(table.name)}"
    columns, properties = ",\n".join(lines), "\n    AND ".join(options)
    return f"CREATE TABLE {name} (\n{columns}\n) WITH {properties};"


def _definition(column: Column) -> str:
    static = " static" if column.kind is ColumnKind.STATIC else ""
    return f"{written(column.name)} {column.type.name}{static}"


def _key(table: Table) -> str:
    partition = ", ".join(written(column.name) for column in table.partition)
    if len(table.partition) > 1:
        partition = f"({partition})"
    return ", ".join((partition, *(written(column.name) for column in table.clustering)))


def written(name: str) -> str:
    """Return the name as a statement must spell it."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _property(value: Any) -> str:
    if isinstance(value, int | float):
        return str(value)
    return _map(dict(value)) if not isinstance(value, str) else _string(value)


def _map(values: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{_string(name)}: {_string(str(value))}" for name, value in values.items()) + "}"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
