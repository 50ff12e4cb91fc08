"""The result kinds of a statement: nothing, rows, a keyspace to use, a change of the schema."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.widecolumn.cql.plan.bindings import Value
from docstore.widecolumn.cql.plan.selection import ResultColumn


@dataclass(frozen=True, slots=True)
class Done:
    """A write."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """`paging_state`: None on the last page; else the next page begins there."""

    columns: tuple[ResultColumn, ...]
    rows: list[tuple[Value, ...]]
    paging_state: bytes | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyspaceSet:
    keyspace: str


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """`change`: CREATED, UPDATED or DROPPED; `table` is None for a change of the keyspace itself."""

    change: str
    keyspace: str
    table: str | None = None


Result = Done | Rows | KeyspaceSet | SchemaChanged
