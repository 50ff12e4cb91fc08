"""The bodies of responses."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docstore.widecolumn.cql.plan.bindings import Value
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.run.results import SchemaChanged
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.notation import (
    NULL,
    inet,
    integer,
    level,
    short,
    short_bytes,
    string,
    string_list,
    unsigned,
    value,
)
from docstore.widecolumn.protocol.opcodes import V5, ErrorCode, ResultKind, RowsFlag
from docstore.widecolumn.protocol.type_options import type_option

VOID = integer(ResultKind.VOID)
_ROWS = integer(ResultKind.ROWS)
_LENGTH = struct.Struct(">i")
NO_COLUMNS = unsigned(RowsFlag.NO_METADATA) + integer(0)
"""The metadata of the result of a statement without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The contents of an ERROR. Only the fields of its code are sent.

    `received`: of an Unavailable the members alive. `write_type`: SIMPLE, BATCH, UNLOGGED_BATCH, CAS.
    """

    code: int
    message: str
    level: Level = Level.ONE
    required: int = 0
    received: int = 0
    write_type: str = "SIMPLE"
    keyspace: str = ""
    table: str = ""
    statement_id: bytes = b""


def error_body(failure: Failure, version: int) -> bytes:
    """The code, the message, and the fields that clients read for this code."""
    return integer(failure.code) + string(failure.message) + _details(failure, version)


def _details(failure: Failure, version: int) -> bytes:
    counts = level(failure.level) + integer(failure.received) + integer(failure.required)
    match failure.code:
        case ErrorCode.UNAVAILABLE:
            return level(failure.level) + integer(failure.required) + integer(failure.received)
        case ErrorCode.WRITE_TIMEOUT:
            contentions = short(0) if version >= V5 and failure.write_type == "CAS" else b""
            return counts + string(failure.write_type) + contentions
        case ErrorCode.READ_TIMEOUT:
            return counts + b"\0"
        # The failures, or in version 5 the list of their reasons: no member is named.
        case ErrorCode.READ_FAILURE:
            return counts + integer(0) + b"\0"
        case ErrorCode.WRITE_FAILURE:
            return counts + integer(0) + string(failure.write_type)
        case ErrorCode.ALREADY_EXISTS:
            return string(failure.keyspace) + string(failure.table)
        case ErrorCode.UNPREPARED:
            return short_bytes(failure.statement_id)
    return b""


def keyspace_body(keyspace: str) -> bytes:
    return integer(ResultKind.SET_KEYSPACE) + string(keyspace)


def schema_change(change: SchemaChanged) -> bytes:
    """A change of the schema, as a result and as an event have it."""
    if change.table is None:
        return string(change.change) + string("KEYSPACE") + string(change.keyspace)
    return string(change.change) + string("TABLE") + string(change.keyspace) + string(change.table)


def schema_change_body(change: SchemaChanged) -> bytes:
    return integer(ResultKind.SCHEMA_CHANGE) + schema_change(change)


def schema_event_body(change: SchemaChanged) -> bytes:
    return string("SCHEMA_CHANGE") + schema_change(change)


def node_event_body(event: str, change: str, address: str, port: int) -> bytes:
    """`event`: TOPOLOGY_CHANGE or STATUS_CHANGE."""
    return string(event) + string(change) + inet(address, port)


def column_specs(columns: Sequence[ResultColumn]) -> tuple[int, bytes]:
    """(flags, the columns with their types); the table stands in front if all are of one."""
    if not columns:
        return 0, b""
    first = columns[0]
    if all(column.table == first.table and column.keyspace == first.keyspace for column in columns):
        specs = b"".join(string(column.name) + type_option(column.type) for column in columns)
        return RowsFlag.GLOBAL_TABLE, string(first.keyspace) + string(first.table) + specs
    return 0, b"".join(
        string(column.keyspace) + string(column.table) + string(column.name) + type_option(column.type)
        for column in columns
    )


def metadata_id_of(columns: Sequence[ResultColumn]) -> bytes:
    """A digest of the result columns, by which version 5 notices that they have changed."""
    flags, specs = column_specs(columns)
    return hashlib.md5(integer(flags) + integer(len(columns)) + specs, usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class RowsMetadata:
    """The metadata of one response. `with_columns`: False if the client knows them; `changed_id`: the new id of the
    columns if the client knew others.
    """

    columns: Sequence[ResultColumn]
    paging_state: bytes | None = None
    with_columns: bool = True
    changed_id: bytes | None = None

    def encode(self) -> bytes:
        flags, specs = column_specs(self.columns) if self.with_columns else (RowsFlag.NO_METADATA, b"")
        parts = [integer(len(self.columns))]
        if self.paging_state is not None:
            flags |= RowsFlag.MORE_PAGES
            parts.append(value(self.paging_state))
        if self.changed_id is not None:
            flags |= RowsFlag.METADATA_CHANGED
            parts.append(short_bytes(self.changed_id))
        return unsigned(flags) + b"".join(parts) + specs


def encode_rows(rows: Iterable[Sequence[Value]]) -> bytes:
    """The cells of some rows, one after the other."""
    pack, parts = _LENGTH.pack, []
    for row in rows:
        for cell in row:
            if cell is None:
                parts.append(NULL)
            else:
                parts.append(pack(len(cell)))
                parts.append(cell)
    return b"".join(parts)


def rows_body(metadata: RowsMetadata, count: int, encoded_rows: Sequence[bytes]) -> bytes:
    """`encoded_rows`: those of `encode_rows`, in pieces."""
    return b"".join((_ROWS, metadata.encode(), integer(count), *encoded_rows))


@dataclass(frozen=True, slots=True)
class BindMetadata:
    """The markers of a prepared statement. `key_positions`: the markers of the partition key, in the order of the key;
    empty unless all of it is bound.
    """

    markers: Sequence[ResultColumn]
    key_positions: Sequence[int] = ()

    def encode(self) -> bytes:
        flags, specs = column_specs(self.markers)
        parts = [unsigned(flags), integer(len(self.markers)), integer(len(self.key_positions))]
        return b"".join((*parts, *map(short, self.key_positions), specs))


def prepared_body(
    statement_id: bytes, bind: BindMetadata, columns: Sequence[ResultColumn] | None, version: int
) -> bytes:
    """`columns`: of the result; None for a statement without rows."""
    metadata_id = short_bytes(metadata_id_of(columns or ())) if version >= V5 else b""
    metadata = NO_COLUMNS if columns is None else RowsMetadata(columns).encode()
    return b"".join((integer(ResultKind.PREPARED), short_bytes(statement_id), metadata_id, bind.encode(), metadata))


def warnings_prefix(warnings: Sequence[str]) -> bytes:
    """Return the bytes in front of a body whose envelope has the flag for warnings."""
    return string_list(warnings)
