"""Changes between two states of the schema and of the nodes, for clients that want to hear of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from docstore.widecolumn.cql.run.results import SchemaChanged
from docstore.widecolumn.cql.schema.describe import keyspace_statement, table_statement
from docstore.widecolumn.cql.system.contents import Schema
from docstore.widecolumn.cql.system.topology import Node

CREATED, UPDATED, DROPPED = "CREATED", "UPDATED", "DROPPED"
Place = tuple[str, int]
"""The address and the port of a node."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """`keyspaces`: their definitions; `tables`: theirs, by keyspace and name; `nodes`: without the process itself."""

    keyspaces: dict[str, str]
    tables: dict[tuple[str, str], str]
    nodes: frozenset[Place]


def state_of(schema: Schema, peers: Iterable[Node]) -> ClusterState:
    return ClusterState(
        {part.keyspace.name: keyspace_statement(part.keyspace) for part in schema},
        {
            (part.keyspace.name, table.name): f"{table.id} {table_statement(table)}"
            for part in schema
            for table in part.tables
        },
        frozenset((node.address, node.port) for node in peers),
    )


def schema_changes(before: ClusterState, after: ClusterState) -> list[SchemaChanged]:
    """Return the changes that lead from one state to the other, keyspaces before their tables.

    A table dropped and made anew is two changes. The tables of a dropped keyspace are gone with it.
    """
    changes: list[SchemaChanged] = []
    for keyspace, definition in after.keyspaces.items():
        if keyspace not in before.keyspaces:
            changes.append(SchemaChanged(CREATED, keyspace))
        elif before.keyspaces[keyspace] != definition:
            changes.append(SchemaChanged(UPDATED, keyspace))
    for (keyspace, table), definition in before.tables.items():
        current = after.tables.get((keyspace, table))
        if keyspace in after.keyspaces and (current is None or current[:36] != definition[:36]):
            changes.append(SchemaChanged(DROPPED, keyspace, table))
    for (keyspace, table), definition in after.tables.items():
        old = before.tables.get((keyspace, table))
        if old is None or old[:36] != definition[:36]:
            changes.append(SchemaChanged(CREATED, keyspace, table))
        elif old != definition:
            changes.append(SchemaChanged(UPDATED, keyspace, table))
    dropped = (keyspace for keyspace in before.keyspaces if keyspace not in after.keyspaces)
    return [*changes, *(SchemaChanged(DROPPED, keyspace) for keyspace in dropped)]
