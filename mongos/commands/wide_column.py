"""The commands of the wide-column mode; what they do is in `mongos.widecolumn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.commands.shared import wide_column as parameters
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

Run = Callable[[Context, Arguments], Any]


def _read(name: str, run: Run, help: str, taken: tuple[Parameter, ...] = (), **traits: Any) -> Command:
    privilege = Privilege("find", Resource.DATABASE)
    return Command(name, run, role=Role.SECONDARY_OK, privilege=privilege, parameters=taken, help=help, **traits)


def _write(name: str, run: Run, help: str, taken: tuple[Parameter, ...] = (), **traits: Any) -> Command:
    traits.setdefault("role", Role.ANY)
    traits.setdefault("privilege", Privilege("insert", Resource.DATABASE))
    return Command(name, run, parameters=taken, help=help, **traits)


_ROW: Mapping[str, Any] = {"value": Type.COLLECTION}
_FAMILY: Mapping[str, Any] = {"value": Type.COLLECTION, "role": Role.PRIMARY}
_CLUSTER: Mapping[str, Any] = {"admin_only": True, "privilege": Privilege("createCollection", Resource.CLUSTER)}

COMMANDS: tuple[Command, ...] = (
    _read("wcGet", read_row, "a column or a super column of a row", parameters.GET, **_ROW),
    _read("wcGetSlice", read_row, "columns of a row", parameters.GET_SLICE, **_ROW),
    _read("wcMultigetSlice", read_rows, "a slice of each of many rows", parameters.MULTIGET_SLICE, **_ROW),
    _read("wcGetRangeSlices", read_ring, "a slice of each row of a range", parameters.GET_RANGE_SLICES, **_ROW),
    _read("wcGetCount", read_row, "the number of live columns of a row", parameters.GET_COUNT, **_ROW),
    _write("wcInsert", hinted(write_row), "insert a column into a row", parameters.INSERT, **_ROW),
    _write("wcRemove", hinted(write_row), "delete a column, a super column or a row", parameters.REMOVE, **_ROW),
    _write("wcBatchMutate", hinted(write_batch), "insert and delete columns of many rows", parameters.BATCH_MUTATE),
    _read("describeKeyspace", describe_keyspace, "a keyspace and its column families"),
    _write(
        "createColumnFamily", create_family, "make a column family", parameters.CREATE_COLUMN_FAMILY,
        value=Type.STRING, role=Role.PRIMARY,
    ),
    _write("alterColumnFamily", alter_family, "change a column family", parameters.ALTER_COLUMN_FAMILY, **_FAMILY),
    _write("dropColumnFamily", drop_family, "drop a column family", **_FAMILY),
    _write("wcTruncate", truncate, "take all rows out of a column family", **_FAMILY),
    _write("dropKeyspace", drop_keyspace, "drop a keyspace", role=Role.PRIMARY),
    Command(
        "describeKeyspaces", describe_keyspaces, role=Role.SECONDARY_OK, help="all keyspaces", **_CLUSTER
    ),
    _write(
        "createKeyspace", create_keyspace, "make a keyspace", parameters.CREATE_KEYSPACE, value=Type.STRING,
        role=Role.PRIMARY, **_CLUSTER,
    ),
    _write(
        "loadStorageConf", load_storage_conf, "make what a storage-conf.xml defines", parameters.LOAD_STORAGE_CONF,
        value=Type.STRING, role=Role.PRIMARY, **_CLUSTER,
    ),
)  # fmt: skip
