"""The commands of the wide-column mode on a data node, one module each."""

from __future__ import annotations

from docstore.commands.declaration import Command
from mongod.widecolumn.commands import (
    alter_column_family,
    apply_rows,
    cql,
    create_column_family,
    create_keyspace,
    define,
    describe_keyspace,
    describe_keyspaces,
    drop_column_family,
    drop_keyspace,
    list_rows,
    load_storage_conf,
    read_record_range,
    read_row,
    scan_rows,
    show_schema,
    show_schemas,
    wc_batch_mutate,
    wc_get,
    wc_get_count,
    wc_get_range_slices,
    wc_get_slice,
    wc_insert,
    wc_multiget_slice,
    wc_remove,
    wc_truncate,
)

_MODULES = (
    alter_column_family, apply_rows, cql, create_column_family, create_keyspace, define, describe_keyspace,
    describe_keyspaces, drop_column_family, drop_keyspace, list_rows, load_storage_conf, read_row, read_record_range,
    scan_rows, show_schema, show_schemas, wc_batch_mutate, wc_get, wc_get_count, wc_get_range_slices, wc_get_slice,
    wc_insert, wc_multiget_slice, wc_remove, wc_truncate,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
