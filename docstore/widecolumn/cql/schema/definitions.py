"""Definitions of keyspaces and tables, converted from statements to the schema's form, with all validation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from docstore.errors import CommandError
from docstore.widecolumn.cql.errors import configuration, invalid, unsupported
from docstore.widecolumn.cql.schema.tables import FIRST_COLUMN_ID, Column, ColumnKind, Table, in_order
from docstore.widecolumn.cql.statements import (
    AddColumns,
    AlterColumnType,
    AlterTable,
    ColumnDefinition,
    CreateTable,
    DropColumns,
    PrimaryKey,
    Properties,
    PropertyValue,
    RenameColumns,
    TableOptions,
)
from docstore.widecolumn.cql.types.collections import collection_of_cells
from docstore.widecolumn.cql.types.names import type_of
from docstore.widecolumn.cql.types.native import CqlType
from docstore.widecolumn.model.cells import MAX_TTL
from docstore.widecolumn.model.column_families import Keyspace, check_keyspace_name

_STRATEGIES = {
    "SimpleStrategy": "org.apache.cassandra.locator.SimpleStrategy",
    "NetworkTopologyStrategy": "org.apache.cassandra.locator.NetworkTopologyStrategy",
}
_NAME = re.compile(r"\w{1,48}", re.ASCII)
_KEPT = """
    additional_write_policy bloom_filter_fp_chance caching cdc compaction compression crc_check_chance
    dclocal_read_repair_chance extensions max_index_interval memtable memtable_flush_period_in_ms min_index_interval
    read_repair read_repair_chance speculative_retry
"""
_KEPT_OPTIONS = frozenset(_KEPT.split())
"""Options of storage that are kept and shown and change nothing here."""


# Keyspaces


def keyspace_of(name: str, properties: Properties) -> Keyspace:
    """A keyspace from the options of its statement. CqlError."""
    options = dict(properties)
    _check_options(options, ("replication", "durable_writes"))
    if not _NAME.fullmatch(name):
        raise invalid(
            f"Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore "
            f'characters (got "{name}")'
        )
    try:
        check_keyspace_name(name)
    except CommandError as error:
        raise invalid(error.message) from None
    if "replication" not in options:
        raise configuration("Missing mandatory option 'replication'")
    return _with_options(Keyspace(name=name), options)


def altered_keyspace(keyspace: Keyspace, properties: Properties) -> Keyspace:
    options = dict(properties)
    _check_options(options, ("replication", "durable_writes"))
    return _with_options(keyspace, options)


def _check_options(options: Mapping[str, PropertyValue], allowed: Sequence[str]) -> None:
    for name in options:
        if name not in allowed:
            raise invalid(f"Unknown property '{name}'")


def _with_options(keyspace: Keyspace, options: Mapping[str, PropertyValue]) -> Keyspace:
    if "durable_writes" in options:
        keyspace = replace(keyspace, durable_writes=_truth("durable_writes", options["durable_writes"]))
    if "replication" not in options:
        return keyspace
    replication = options["replication"]
    if isinstance(replication, str):
        raise invalid("Invalid value for property 'replication'. It should be a map.")
    strategy_options = dict(replication)
    strategy = strategy_options.pop("class", None)
    if strategy is None:
        raise configuration("Missing replication strategy class")
    short = strategy.rpartition(".")[2]
    if short not in _STRATEGIES or strategy not in (short, _STRATEGIES[short]):
        raise configuration(f"Unable to find replication strategy class '{strategy}'")
    counts = {name: _replicas(name, text) for name, text in strategy_options.items()}
    if short == "SimpleStrategy":
        unknown = sorted(set(counts) - {"replication_factor"})
        if unknown:
            raise configuration(
                f"Unrecognized strategy option {{{unknown[0]}}} passed to SimpleStrategy for keyspace {keyspace.name}"
            )
        if not counts:
            raise configuration("SimpleStrategy requires a replication_factor strategy option.")
        factor, datacenters = counts["replication_factor"], {}
    else:
        if not counts:
            raise configuration("Configuration for at least one datacenter must be present")
        factor, datacenters = sum(counts.values()), counts
    return replace(keyspace, strategy=_STRATEGIES[short], replication_factor=factor, datacenters=datacenters)


def _replicas(name: str, text: str) -> int:
    if not text.isdigit():
        raise configuration(f"Replication factor must be numeric; found {text}")
    if int(text) == 0:
        raise configuration(f"Replication factor must be positive; found {text} for {name}")
    return int(text)


def _truth(name: str, value: PropertyValue) -> bool:
    if value not in ("true", "false"):
        raise invalid(f"Invalid boolean value {value} for '{name}'")
    return value == "true"


# Tables


def table_from(keyspace: Keyspace, statement: CreateTable, identity: UUID) -> Table:
    """A new table. CqlError for a definition that cannot be."""
    name = statement.table.name
    if not _NAME.fullmatch(name):
        raise invalid(
            "Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore "
            f'characters (got "{name}")'
        )
    if statement.options.compact:
        raise unsupported("COMPACT STORAGE is")
    key = _primary_key(statement)
    definitions: dict[str, ColumnDefinition] = {}
    for definition in statement.columns:
        if definition.name in definitions:
            raise invalid(f"Duplicate column '{definition.name}' declaration for table '{name}'")
        definitions[definition.name] = definition
    types = {column: type_of(definition.type, keyspace.name) for column, definition in definitions.items()}
    _check_key(name, key, definitions, types)
    descending = _clustering_order(key, statement.options.order)
    kinds = {column: (ColumnKind.PARTITION, index) for index, column in enumerate(key.partition)}
    kinds |= {column: (ColumnKind.CLUSTERING, index) for index, column in enumerate(key.clustering)}
    columns: list[Column] = []
    for identifier, (column, definition) in enumerate(definitions.items(), FIRST_COLUMN_ID):
        kind, position = kinds.get(column, (ColumnKind.STATIC if definition.static else ColumnKind.REGULAR, -1))
        columns.append(Column(column, types[column], kind, position, identifier, column in descending))
    table = Table(keyspace, name, identity, in_order(columns), FIRST_COLUMN_ID + len(columns))
    return with_options(table, statement.options.properties)


def _primary_key(statement: CreateTable) -> PrimaryKey:
    name = statement.table.name
    keys = list(statement.keys)
    keys += [PrimaryKey((column.name,), ()) for column in statement.columns if column.primary]
    if not keys:
        raise invalid(f"No PRIMARY KEY specifed for table '{name}' (exactly one required)")
    if len(keys) > 1:
        raise invalid(f"Multiple PRIMARY KEYs specified for table '{name}' (exactly one required)")
    return keys[0]


def _check_key(
    name: str, key: PrimaryKey, definitions: Mapping[str, ColumnDefinition], types: Mapping[str, CqlType]
) -> None:
    key_columns: set[str] = set()
    for column in (*key.partition, *key.clustering):
        if column not in definitions:
            raise invalid(f"Unknown column '{column}' referenced in PRIMARY KEY for table '{name}'")
        if column in key_columns:
            raise invalid(f"Duplicate column '{column}' in PRIMARY KEY clause for table '{name}'")
        key_columns.add(column)
        if definitions[column].static:
            raise invalid(f"Static column '{column}' cannot be part of the PRIMARY KEY")
        kind = types[column]
        if kind.name == "duration":
            raise invalid(f"duration type is not supported for PRIMARY KEY column '{column}'")
        if collection_of_cells(kind) is not None:
            raise invalid(f"Invalid non-frozen collection type {kind.name} for PRIMARY KEY column '{column}'")
        if kind.comparator is None and column in key.clustering:
            raise unsupported(f"The type {kind.name} for clustering column '{column}' is")
    statics = any(definition.static for definition in definitions.values())
    if statics and not key.clustering:
        raise invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
        )


def _clustering_order(key: PrimaryKey, order: Sequence[tuple[str, bool]]) -> frozenset[str]:
    """The clustering columns that descend."""
    if not order:
        return frozenset()
    names = [name for name, _ in order]
    if len(names) > len(key.clustering):
        raise invalid("Only clustering columns can be defined in CLUSTERING ORDER directive")
    for position, column in enumerate(key.clustering):
        if column not in names:
            raise invalid(f"Missing CLUSTERING ORDER for column {column}")
        if names[position] != column:
            raise invalid(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns "
                f"({column} must appear before {names[position]})"
            )
    return frozenset(name for name, descending in order if descending)


def with_options(table: Table, properties: Properties) -> Table:
    """The table with options of WITH. CqlError."""
    stored_properties: dict[str, Any] = dict(table.properties)
    for name, value in properties:
        if name == "comment":
            table = replace(table, comment=_text(name, value))
        elif name == "gc_grace_seconds":
            table = replace(table, gc_grace_seconds=_count(name, value))
        elif name == "default_time_to_live":
            table = replace(table, default_ttl=_ttl(name, value))
        elif name in _KEPT_OPTIONS:
            stored_properties[name] = value if isinstance(value, str) else dict(value)
        else:
            raise invalid(f"Unknown property '{name}'")
    return replace(table, properties=stored_properties)


def _text(name: str, value: PropertyValue) -> str:
    if not isinstance(value, str):
        raise invalid(f"Invalid value for property '{name}'. It should be a string.")
    return value


def _count(name: str, value: PropertyValue) -> int:
    text = _text(name, value)
    if not text.lstrip("-").isdigit():
        raise invalid(f"Invalid integer value {text} for '{name}'")
    if text.startswith("-"):
        raise invalid(f"{name} must be greater than or equal to 0 (got {text})")
    return int(text)


def _ttl(name: str, value: PropertyValue) -> int:
    seconds = _count(name, value)
    if seconds > MAX_TTL:
        raise configuration(f"{name} must be less than or equal to {MAX_TTL} (got {seconds})")
    return seconds


def altered_table(table: Table, statement: AlterTable) -> Table:
    """The table after ALTER TABLE. CqlError."""
    change = statement.change
    if isinstance(change, TableOptions):
        if change.order or change.compact:
            raise invalid("Cannot alter the clustering order or the storage of a table")
        return with_options(table, change.properties)
    if isinstance(change, AddColumns):
        return _with_columns(table, change.columns)
    if isinstance(change, DropColumns):
        return _without_columns(table, change.columns)
    if isinstance(change, RenameColumns):
        return _renamed(table, change.names)
    assert isinstance(change, AlterColumnType), "there are no other changes"
    raise invalid("Altering column types is no longer supported")


def _with_columns(table: Table, definitions: Sequence[ColumnDefinition]) -> Table:
    for definition in definitions:
        if definition.primary:
            raise invalid("Cannot add a PRIMARY KEY column")
        if definition.name in table.by_name:
            raise invalid(f"Column with name '{definition.name}' already exists")
        if definition.static and not table.clustering:
            raise invalid(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
            )
        kind = ColumnKind.STATIC if definition.static else ColumnKind.REGULAR
        column = Column(definition.name, type_of(definition.type, table.keyspace.name), kind, -1, table.next_column_id)
        table = replace(table, columns=in_order([*table.columns, column]), next_column_id=table.next_column_id + 1)
    return table


def _without_columns(table: Table, names: Sequence[str]) -> Table:
    for name in names:
        column = table.by_name.get(name)
        if column is None:
            raise invalid(f"Column {name} was not found in table '{table.keyspace.name}.{table.name}'")
        if column.kind.is_key:
            raise invalid(f"Cannot drop PRIMARY KEY column {name}")
        table = replace(table, columns=tuple(other for other in table.columns if other is not column))
    return table


def _renamed(table: Table, names: Sequence[tuple[str, str]]) -> Table:
    for old, new in names:
        column = table.by_name.get(old)
        if column is None:
            raise invalid(f"Column {old} was not found in table '{table.keyspace.name}.{table.name}'")
        if not column.kind.is_key:
            raise invalid(f"Cannot rename non PRIMARY KEY column {old}")
        if new in table.by_name:
            raise invalid(
                f"Cannot rename column {old} to {new} in table '{table.keyspace.name}.{table.name}'; "
                "another column with that name already exists"
            )
        columns = [replace(other, name=new) if other is column else other for other in table.columns]
        table = replace(table, columns=tuple(columns))
    return table
