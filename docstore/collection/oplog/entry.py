"""Encoded oplog entries: assembled from cached parts, read without decoding.

The format is MongoDB 6.0's: `{lsid, txnNumber, op, ns, ui, o, o2, fromMigrate, stmtId, ts, t, v: 2, wall, prevOpTime}`,
where only `op, ns, o, ts, t, v, wall` are always present. `docstore.kernel.log.entries` assembles them.
"""

from __future__ import annotations

import struct
from uuid import UUID

from docstore.bson import ARRAY, BINARY, INT32, Value, array_from, get_field, values
from docstore.optime import OpTime

_LENGTH = struct.Struct("<i")
_INT = struct.Struct("<i")
_STMT_ID = struct.Struct("<8si")


def entry_head(op: str, ns: str, uuid: UUID | None) -> bytes:
    """Return the encoded fields `op`, `ns` and `ui`, the same for every entry of a collection."""
    name = ns.encode() + b"\0"
    head = b"\x02op\0\x02\0\0\0" + op.encode() + b"\0\x02ns\0" + _LENGTH.pack(len(name)) + name
    if uuid is None:
        return head
    return head + b"\x05ui\0\x10\0\0\0\x04" + uuid.bytes


def uuid_value(uuid: UUID) -> Value:
    """Return a UUID as a BSON value."""
    return BINARY, b"\x10\0\0\0\x04" + uuid.bytes


StatementIds = int | tuple[int, ...]
"""The id of the retryable statement that an entry executes, or the ids of several."""


def statement_ids(stmt_id: StatementIds) -> tuple[int, ...]:
    """Return the ids as a tuple."""
    return (stmt_id,) if isinstance(stmt_id, int) else stmt_id


def statement_field(stmt_id: StatementIds) -> bytes:
    """Return the encoded field `stmtId`: a number, or an array of several."""
    if isinstance(stmt_id, int):
        return _STMT_ID.pack(b"\x10stmtId\0", stmt_id)
    first, *later_ids = stmt_id
    if not later_ids:
        return _STMT_ID.pack(b"\x10stmtId\0", first)
    return b"\x04stmtId\0" + array_from([(INT32, _INT.pack(statement_id)) for statement_id in (first, *later_ids)])


def statements_in(value: Value) -> tuple[int, ...]:
    """Return the ids in a field `stmtId`."""
    parts = values(value[1]) if value[0] == ARRAY else [value]
    return tuple(_INT.unpack(data)[0] for _, data in parts)


def previous_optime(entry: bytes) -> OpTime:
    """Return the `prevOpTime` of an oplog entry; a null timestamp if it has none."""
    optime = get_field(entry, "prevOpTime")
    if optime is None:
        return OpTime(-1, 0)
    timestamp, term = get_field(optime[1], "ts"), get_field(optime[1], "t")
    assert timestamp is not None, "prevOpTime without ts"
    assert term is not None, "prevOpTime without t"
    return OpTime(int.from_bytes(term[1], "little", signed=True), int.from_bytes(timestamp[1], "little"))
