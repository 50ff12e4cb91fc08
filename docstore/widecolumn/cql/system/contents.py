"""The rows of the system tables, as Python values by the names of their columns."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from docstore.widecolumn.cql.schema.describe import keyspace_statement, replication_of, table_statement
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.system.definitions import KEYSPACES, SCHEMA, SYSTEM, TABLES, VIRTUAL_SCHEMA
from docstore.widecolumn.cql.system.topology import CQL_VERSION, DATA_CENTER, PARTITIONER, RACK, RELEASE, Node, Topology
from docstore.widecolumn.model.column_families import Keyspace

Row = dict[str, Any]
_VIRTUAL = frozenset((VIRTUAL_SCHEMA,))
_STORAGE_PORT = 7000
_DEFAULTS: Row = {
    "additional_write_policy": "99p",
    "bloom_filter_fp_chance": 0.01,
    "caching": {"keys": "ALL", "rows_per_partition": "NONE"},
    "cdc": None,
    "compaction": {
        "class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
        "max_threshold": "32",
        "min_threshold": "4",
    },
    "compression": {"chunk_length_in_kb": "16", "class": "org.apache.cassandra.io.compress.LZ4Compressor"},
    "crc_check_chance": 1.0,
    "dclocal_read_repair_chance": 0.0,
    "extensions": {},
    "max_index_interval": 2048,
    "memtable_flush_period_in_ms": 0,
    "min_index_interval": 128,
    "read_repair": "BLOCKING",
    "read_repair_chance": 0.0,
    "speculative_retry": "99p",
}


@dataclass(frozen=True, slots=True)
class KeyspaceSchema:
    """A keyspace and its tables in the order of their names."""

    keyspace: Keyspace
    tables: Sequence[Table]


Schema = Sequence[KeyspaceSchema]


def schema_version(schema: Schema) -> uuid.UUID:
    """Return the version of a schema, the same wherever it is the same."""
    digest = hashlib.md5(usedforsecurity=False)
    for part in sorted(schema, key=lambda part: part.keyspace.name):
        digest.update(keyspace_statement(part.keyspace).encode())
        for table in part.tables:
            ids = ",".join(f"{column.id}" for column in table.columns)
            digest.update(f"{table.id} {ids} {table_statement(table)}".encode())
    return uuid.UUID(bytes=digest.digest(), version=3)


def with_system(schema: Schema) -> list[KeyspaceSchema]:
    """Return the schema with the system keyspaces in front, without those that are virtual."""
    system = [
        KeyspaceSchema(keyspace, [table for (space, _), table in TABLES.items() if space == name])
        for name, keyspace in KEYSPACES.items()
        if name not in _VIRTUAL
    ]
    return [*system, *schema]


def local_rows(topology: Topology, version: uuid.UUID) -> list[Row]:
    """The one row of system.local."""
    node = topology.local
    address = ip_address(node.address)
    return [
        {
            "key": "local",
            "bootstrapped": "COMPLETED",
            "broadcast_address": address,
            "broadcast_port": _STORAGE_PORT,
            "cluster_name": topology.cluster_name,
            "cql_version": CQL_VERSION,
            "gossip_generation": 1,
            "listen_address": address,
            "listen_port": _STORAGE_PORT,
            "native_protocol_version": "5",
            "partitioner": PARTITIONER,
            "rpc_address": address,
            "rpc_port": node.port,
            **_node(node, version),
        }
    ]


def _node(node: Node, version: uuid.UUID) -> Row:
    return {
        "data_center": DATA_CENTER,
        "host_id": node.host_id,
        "rack": RACK,
        "release_version": RELEASE,
        "schema_version": version,
        "tokens": list(node.tokens),
    }


def peer_rows(topology: Topology, version: uuid.UUID) -> list[Row]:
    """The rows of system.peers: one for each address."""
    rows = {
        node.address: {
            "peer": ip_address(node.address),
            "rpc_address": ip_address(node.address),
            **_node(node, version),
        }
        for node in topology.peers
        if node.address != topology.local.address
    }
    return list(rows.values())


def peer_v2_rows(topology: Topology, version: uuid.UUID) -> list[Row]:
    # Processes on one machine differ in nothing but their ports.
    return [
        {
            "peer": ip_address(node.address),
            "peer_port": node.port,
            "native_address": ip_address(node.address),
            "native_port": node.port,
            **_node(node, version),
        }
        for node in topology.peers
    ]


def keyspace_rows(schema: Schema) -> list[Row]:
    return [
        {
            "keyspace_name": part.keyspace.name,
            "durable_writes": part.keyspace.durable_writes,
            "replication": replication_rows(part.keyspace),
        }
        for part in schema
    ]


def replication_rows(keyspace: Keyspace) -> dict[str, str]:
    """The options of a keyspace's replication, with the full name of the strategy."""
    options = {name: str(value) for name, value in replication_of(keyspace).items()}
    return {**options, "class": keyspace.strategy}


def table_rows(schema: Schema) -> list[Row]:
    return [
        {
            "keyspace_name": part.keyspace.name,
            "table_name": table.name,
            **_DEFAULTS,
            **_properties(table),
            "comment": table.comment,
            "default_time_to_live": table.default_ttl,
            "flags": ["compound"],
            "gc_grace_seconds": table.gc_grace_seconds,
            "id": table.id,
        }
        for part in schema
        for table in part.tables
    ]


def _properties(table: Table) -> Row:
    """The kept options of a table that the row has a column for, in the type of the column."""
    row: Row = {}
    columns = TABLES[SCHEMA, "tables"].by_name
    for name, value in table.properties.items():
        column = columns.get(name)
        if column is not None:
            row[name] = _converted(column, value)
    return row


def _converted(column: Column, value: Any) -> Any:
    if column.type.name.startswith("map"):
        return {key: str(item) for key, item in dict(value).items()}
    if column.type.name == "double":
        return float(value)
    if column.type.name == "int":
        return int(value)
    if column.type.name == "boolean":
        return str(value).lower() == "true"
    return str(value)


def column_rows(schema: Schema) -> list[Row]:
    return [_column(table, column) for part in schema for table in part.tables for column in table.columns]


def _column(table: Table, column: Column) -> Row:
    order = "none"
    if column.kind is ColumnKind.CLUSTERING:
        order = "desc" if column.descending else "asc"
    return {
        "keyspace_name": table.keyspace.name,
        "table_name": table.name,
        "column_name": column.name,
        "clustering_order": order,
        "column_name_bytes": column.name.encode(),
        "kind": column.kind.value,
        "position": column.position if column.kind.is_key else -1,
        "type": column.type.name,
    }


def virtual_keyspace_rows() -> list[Row]:
    return [{"keyspace_name": name} for name in sorted(_VIRTUAL)]


def virtual_tables() -> Iterator[Table]:
    return (table for (space, _), table in TABLES.items() if space in _VIRTUAL)


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """All that system tables show. `schema`: what the client may see of it."""

    topology: Topology
    schema: Schema
    version: uuid.UUID


_CONTENTS: dict[tuple[str, str], Callable[[SystemFacts], Iterable[Row]]] = {
    (SYSTEM, "local"): lambda facts: local_rows(facts.topology, facts.version),
    (SYSTEM, "peers"): lambda facts: peer_rows(facts.topology, facts.version),
    (SYSTEM, "peers_v2"): lambda facts: peer_v2_rows(facts.topology, facts.version),
    (SCHEMA, "keyspaces"): lambda facts: keyspace_rows(with_system(facts.schema)),
    (SCHEMA, "tables"): lambda facts: table_rows(with_system(facts.schema)),
    (SCHEMA, "columns"): lambda facts: column_rows(with_system(facts.schema)),
    (VIRTUAL_SCHEMA, "keyspaces"): lambda _facts: virtual_keyspace_rows(),
    (VIRTUAL_SCHEMA, "tables"): lambda _facts: [
        {"keyspace_name": table.keyspace.name, "table_name": table.name, "comment": ""} for table in virtual_tables()
    ],
    (VIRTUAL_SCHEMA, "columns"): lambda _facts: [
        _column(table, column) for table in virtual_tables() for column in table.columns
    ],
}


def rows_of(keyspace: str, table: str, facts: SystemFacts) -> Iterable[Row]:
    """The rows of a system table; most are always empty."""
    contents = _CONTENTS.get((keyspace, table))
    return () if contents is None else contents(facts)
