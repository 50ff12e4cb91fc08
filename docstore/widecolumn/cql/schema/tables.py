"""Tables: their columns, and their definition in the options of a column family of type `Table`.

Invariants:

- the partition key has at least one column;
- positions count within a kind from 0;
- a column's `id` is never reused in the table, so a new column does not show the cells of a dropped one of its name.

A table's rows are stored in its partitions in the order of the clustering columns, each ascending or descending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any
from uuid import UUID

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.types.names import stored_type
from docstore.widecolumn.cql.types.native import CqlType
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.comparators import Comparator, Reversed

FIRST_COLUMN_ID = 1
"""0 stands for the row marker."""


class ColumnKind(Enum):
    """The value is the name in stored definitions and in system tables."""

    PARTITION = "partition_key"
    CLUSTERING = "clustering"
    STATIC = "static"
    REGULAR = "regular"

    @property
    def is_key(self) -> bool:
        return self in (ColumnKind.PARTITION, ColumnKind.CLUSTERING)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: CqlType
    kind: ColumnKind
    position: int
    id: int
    descending: bool = False

    @property
    def comparator(self) -> Comparator:
        """The order of the column's values in keys."""
        assert self.type.comparator is not None, "a key column's type is ordered"
        return Reversed(self.type.comparator) if self.descending else self.type.comparator


@dataclass(frozen=True, eq=False)
class Table:
    """`columns`: partition key, clustering columns, then the others by their names: the order of `SELECT *`."""

    keyspace: Keyspace
    name: str
    id: UUID
    columns: tuple[Column, ...]
    next_column_id: int
    default_ttl: int = 0
    gc_grace_seconds: int = 864_000
    comment: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Options that are kept and shown and change nothing here."""

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def by_id(self) -> dict[int, Column]:
        return {column.id: column for column in self.columns}

    @cached_property
    def partition(self) -> tuple[Column, ...]:
        return self.of_kind(ColumnKind.PARTITION)

    @cached_property
    def clustering(self) -> tuple[Column, ...]:
        return self.of_kind(ColumnKind.CLUSTERING)

    @cached_property
    def static(self) -> tuple[Column, ...]:
        return self.of_kind(ColumnKind.STATIC)

    @cached_property
    def regular(self) -> tuple[Column, ...]:
        return self.of_kind(ColumnKind.REGULAR)

    @cached_property
    def clustering_comparators(self) -> tuple[Comparator, ...]:
        return tuple(column.comparator for column in self.clustering)

    def of_kind(self, kind: ColumnKind) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind is kind)

    def column(self, name: str) -> Column:
        """The column of that name. CqlError."""
        column = self.by_name.get(name)
        if column is None:
            raise invalid(f"Undefined column name {name} in table {self.keyspace.name}.{self.name}")
        return column


_RANKS = {kind: rank for rank, kind in enumerate(ColumnKind)}


def in_order(columns: list[Column]) -> tuple[Column, ...]:
    """Columns as `Table.columns` has them."""
    return tuple(sorted(columns, key=lambda column: (_RANKS[column.kind], column.position, column.name)))


def family_of(table: Table) -> ColumnFamily:
    """The column family that stores the table."""
    return ColumnFamily(
        name=table.name,
        comment=table.comment,
        gc_grace_seconds=table.gc_grace_seconds,
        default_ttl=table.default_ttl,
        table={
            "columns": [_column_options(column) for column in table.columns],
            "nextColumnId": table.next_column_id,
            "properties": dict(table.properties),
        },
    )


def _column_options(column: Column) -> dict[str, Any]:
    options: dict[str, Any] = {
        "name": column.name,
        "type": column.type.name,
        "kind": column.kind.value,
        "position": column.position,
        "id": column.id,
    }
    if column.descending:
        options["descending"] = True
    return options


def table_of(keyspace: Keyspace, family: ColumnFamily, identity: UUID) -> Table:
    """The table that `family_of` described."""
    options = family.table
    assert options is not None, "the family is a table"
    return Table(
        keyspace=keyspace,
        name=family.name,
        id=identity,
        columns=tuple(_column_from(column, keyspace.name) for column in options["columns"]),
        next_column_id=options["nextColumnId"],
        default_ttl=family.default_ttl,
        gc_grace_seconds=family.gc_grace_seconds,
        comment=family.comment,
        properties=options["properties"],
    )


def _column_from(options: Mapping[str, Any], keyspace: str) -> Column:
    return Column(
        name=options["name"],
        type=stored_type(options["type"], keyspace),
        kind=ColumnKind(options["kind"]),
        position=options["position"],
        id=options["id"],
        descending=options.get("descending", False),
    )
