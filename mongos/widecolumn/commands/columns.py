"""The commands of the wide-column mode; `mongos.widecolumn` implements them."""

from __future__ import annotations

from docstore.commands.declaration import Command
from docstore.commands.specs import wide_column as specs
from mongos.widecolumn.hints.writes import hinted
from mongos.widecolumn.row_commands import read_ring, read_row, read_rows, write_batch, write_row
from mongos.widecolumn.schema_commands import (
    alter_family,
    create_family,
    create_keyspace,
    describe_keyspace,
    describe_keyspaces,
    drop_family,
    drop_keyspace,
    load_storage_conf,
    truncate,
)

COMMANDS: tuple[Command, ...] = (
    specs.GET.command(read_row),
    specs.GET_SLICE.command(read_row),
    specs.MULTIGET_SLICE.command(read_rows),
    specs.GET_RANGE_SLICES.command(read_ring),
    specs.GET_COUNT.command(read_row),
    specs.INSERT.command(hinted(write_row)),
    specs.REMOVE.command(hinted(write_row)),
    specs.BATCH_MUTATE.command(hinted(write_batch)),
    specs.DESCRIBE_KEYSPACE.command(describe_keyspace),
    specs.CREATE_COLUMN_FAMILY.command(create_family),
    specs.ALTER_COLUMN_FAMILY.command(alter_family),
    specs.DROP_COLUMN_FAMILY.command(drop_family),
    specs.TRUNCATE.command(truncate),
    specs.DROP_KEYSPACE.command(drop_keyspace),
    specs.DESCRIBE_KEYSPACES.command(describe_keyspaces),
    specs.CREATE_KEYSPACE.command(create_keyspace),
    specs.LOAD_STORAGE_CONF.command(load_storage_conf),
)
