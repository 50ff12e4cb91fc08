"""The tables of the system keyspaces, as Cassandra 5.0 has them: names, columns, order, identifiers.

A table is a line: its name, then its key in the notation of PRIMARY KEY, then the other columns. Types without a name
are `text`.
"""

from __future__ import annotations

import re
import uuid

from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table, family_of, in_order
from docstore.widecolumn.cql.types.names import stored_type
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.executor import StoredFamily

SYSTEM = "system"
SCHEMA = "system_schema"
AUTH = "system_auth"
TRACES = "system_traces"
VIRTUAL_SCHEMA = "system_virtual_schema"
_LOCAL_STRATEGY = "org.apache.cassandra.locator.LocalStrategy"
_SIMPLE_STRATEGY = "org.apache.cassandra.locator.SimpleStrategy"

KEYSPACES = {
    name: Keyspace(name=name, strategy=strategy, replication_factor=None if strategy == _LOCAL_STRATEGY else 1)
    for name, strategy in (
        (SYSTEM, _LOCAL_STRATEGY),
        (SCHEMA, _LOCAL_STRATEGY),
        (AUTH, _SIMPLE_STRATEGY),
        (TRACES, _SIMPLE_STRATEGY),
        (VIRTUAL_SCHEMA, _LOCAL_STRATEGY),
    )
}

_OPTIONS = (
    "additional_write_policy, allow_auto_snapshot boolean, bloom_filter_fp_chance double, caching map<text, text>, "
    "cdc boolean, comment, compaction map<text, text>, compression map<text, text>, crc_check_chance double, "
    "dclocal_read_repair_chance double, default_time_to_live int, extensions map<text, blob>, gc_grace_seconds int, "
    "id uuid, incremental_backups boolean, max_index_interval int, memtable, memtable_flush_period_in_ms int, "
    "min_index_interval int, read_repair, read_repair_chance double, speculative_retry"
)
_NODE = "data_center, host_id uuid, rack, release_version, schema_version uuid, tokens set<text>, preferred_ip inet"
_TABLES = {
    SYSTEM: (
        "local (key): bootstrapped, broadcast_address inet, broadcast_port int, cluster_name, cql_version, "
        "data_center, gossip_generation int, host_id uuid, listen_address inet, listen_port int, "
        "native_protocol_version, partitioner, rack, release_version, rpc_address inet, rpc_port int, "
        "schema_version uuid, tokens set<text>, truncated_at map<uuid, blob>",
        f"peers (peer inet): {_NODE}, rpc_address inet",
        f"peers_v2 (peer inet, peer_port int): {_NODE}, native_address inet, native_port int, preferred_port int",
        "built_views (keyspace_name, view_name): status_replicated boolean",
        "size_estimates (keyspace_name, table_name, range_start, range_end): mean_partition_size bigint, "
        "partitions_count bigint",
        '"IndexInfo" (table_name, index_name): value blob',
    ),
    SCHEMA: (
        "keyspaces (keyspace_name): durable_writes boolean, replication map<text, text>",
        f"tables (keyspace_name, table_name): {_OPTIONS}, flags set<text>",
        "columns (keyspace_name, table_name, column_name): clustering_order, column_name_bytes blob, kind, "
        "position int, type",
        "dropped_columns (keyspace_name, table_name, column_name): dropped_time timestamp, kind, type",
        "types (keyspace_name, type_name): field_names list<text>, field_types list<text>",
        "functions (keyspace_name, function_name): argument_types list<text>, argument_names list<text>, body, "
        "called_on_null_input boolean, language, return_type",
        "aggregates (keyspace_name, aggregate_name): argument_types list<text>, final_func, initcond, return_type, "
        "state_func, state_type",
        "triggers (keyspace_name, table_name, trigger_name): options map<text, text>",
        "indexes (keyspace_name, table_name, index_name): kind, options map<text, text>",
        f"views (keyspace_name, view_name): base_table_id uuid, base_table_name, {_OPTIONS}, "
        "include_all_columns boolean, where_clause",
    ),
    AUTH: ("roles (role): can_login boolean, is_superuser boolean, member_of set<text>, salted_hash",),
    TRACES: (
        "sessions (session_id uuid): client inet, command, coordinator inet, coordinator_port int, duration int, "
        "parameters map<text, text>, request, started_at timestamp",
        "events (session_id uuid, event_id timeuuid): activity, source inet, source_elapsed int, source_port int, "
        "thread",
    ),
    VIRTUAL_SCHEMA: (
        "keyspaces (keyspace_name):",
        "tables (keyspace_name, table_name): comment",
        "columns (keyspace_name, table_name, column_name): clustering_order, column_name_bytes blob, kind, "
        "position int, type",
    ),
}
_LINE = re.compile(r'"?(?P<name>\w+)"? \((?P<key>[^)]*)\):(?P<columns>.*)')
_COLUMN = re.compile(r"(?P<name>\w+)(?: (?P<type>\w+(?:<[^>]*>)?))?(?:, |$)")


def _table(keyspace: Keyspace, line: str) -> Table:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    keys = [(part["name"], part["type"]) for part in _COLUMN.finditer(match["key"])]
    regular = [(part["name"], part["type"]) for part in _COLUMN.finditer(match["columns"].strip())]
    kinds = [ColumnKind.PARTITION, *[ColumnKind.CLUSTERING] * (len(keys) - 1), *[ColumnKind.REGULAR] * len(regular)]
    columns = [
        Column(name, stored_type(kind or "text", keyspace.name), role, 0 if at == 0 else max(at - 1, 0), at + 1)
        for at, ((name, kind), role) in enumerate(zip((*keys, *regular), kinds, strict=True))
    ]
    name = match["name"]
    return Table(
        keyspace=keyspace,
        name=name,
        id=uuid.uuid3(uuid.NAMESPACE_OID, f"{keyspace.name}.{name}"),
        columns=in_order(columns),
        next_column_id=len(columns) + 1,
        gc_grace_seconds=0,
    )


TABLES: dict[tuple[str, str], Table] = {
    (table.keyspace.name, table.name): table
    for keyspace, lines in _TABLES.items()
    for table in (_table(KEYSPACES[keyspace], line) for line in lines)
}
FAMILIES = {key: StoredFamily(table.keyspace, family_of(table), table.id) for key, table in TABLES.items()}
"""The tables as an executor gives them."""
