"""Oplog entries of a transaction: a command `applyOps` of its operations, in MongoDB 6.0's format.

- A transaction too large for one entry spans several, in order. All but the last have `partialTxn`; the last has the
  number of operations. `prevOpTime` links each entry to the one before. Only the last takes effect.
- If the last entry has `prepare`, the transaction takes effect with a later command `commitTransaction`, whose
  `prevOpTime` links to it. `abortTransaction` discards it.
- A prepared transaction commits as of `commitTimestamp`: not before the `prepare`, and before the commit entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from docstore.bson import array_documents, get_field
from docstore.bson.build import enclosed
from docstore.collection.oplog.entry import entry_head, previous_optime
from docstore.collection.oplog.inserts import PLACES
from docstore.optime import OpTime

COMMAND_HEAD = entry_head("c", "admin.$cmd", None)
PARTIAL = "partialTxn"
PREPARE = "prepare"
COMMIT = "commitTransaction"
ABORT = "abortTransaction"
MOST_BYTES = 16 * 1024 * 1024
"""Maximum bytes of operations in one entry; a single operation may be larger."""

_NAME = "applyOps"
_IS_PARTIAL = b"\x08" + PARTIAL.encode() + b"\0\1"
_IS_PREPARED = b"\x08" + PREPARE.encode() + b"\0\1"
_ONE = b"\0\0\0\0\0\0\0\xf0\x3f"
_COMMIT_HEAD = b"\x01" + COMMIT.encode() + _ONE + b"\x11commitTimestamp\0"
_ABORT = b"\x01" + ABORT.encode() + _ONE
_TIMESTAMP = struct.Struct("<Q")


def operations_commands(operations: Sequence[bytes], *, prepare: bool = False) -> list[bytes]:
    """Return the `o` of each entry, in order; at least one. `prepare`: they have no effect yet."""
    end = _IS_PREPARED if prepare else b""
    if sum(map(len, operations)) + 8 * len(operations) <= MOST_BYTES:
        return [enclosed(_array(operations) + end)]
    parts: list[list[bytes]] = [[]]
    size = 0
    for operation in operations:
        if parts[-1] and size + len(operation) > MOST_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(operation)
        size += len(operation) + 8
    if len(parts) == 1:
        return [enclosed(_array(parts[0]) + end)]
    commands = [enclosed(_array(part) + _IS_PARTIAL) for part in parts[:-1]]
    commands.append(enclosed(_array(parts[-1]) + end + b"\x12count\0" + len(operations).to_bytes(8, "little")))
    return commands


def _array(operations: Sequence[bytes]) -> bytes:
    headers: Iterable[bytes] = PLACES
    if len(operations) > len(PLACES):
        headers = [b"\x03%d\0" % index for index in range(len(operations))]
    members = b"".join(chain.from_iterable(zip(headers, operations, strict=False)))
    return b"\x04applyOps\0" + enclosed(members)


def operations_of(command: bytes) -> list[bytes]:
    """Return the operations in an entry's `o`."""
    operations = get_field(command, _NAME)
    return [] if operations is None else array_documents(operations[1])


def commit_command(timestamp: int) -> bytes:
    """Return the `o` of the entry that commits a prepared transaction as of `timestamp`."""
    return enclosed(b"".join((_COMMIT_HEAD, _TIMESTAMP.pack(timestamp), b"\x08prepared\0\1")))


def abort_command() -> bytes:
    """Return the `o` of the entry that aborts a prepared transaction."""
    return enclosed(_ABORT)


def commit_timestamp(command: bytes) -> int | None:
    """Return the commit timestamp of an entry's `o` that commits a prepared transaction; None for other commands."""
    if get_field(command, COMMIT) is None:
        return None
    timestamp_field = get_field(command, "commitTimestamp")
    assert timestamp_field is not None, "what was prepared is committed as of a timestamp"
    timestamp: int = _TIMESTAMP.unpack(timestamp_field[1])[0]
    return timestamp


def chained_operations(entry: bytes, read_entry: Callable[[int], bytes | None]) -> list[bytes] | None:
    """Return the operations of the transaction that the entry ends or commits; None if the oplog lacks some of its
    entries.

    `read_entry` returns the entry at a timestamp.
    """
    commands: list[bytes] = []
    while True:
        o = get_field(entry, "o")
        assert o is not None, "an oplog entry without o"
        commands.append(o[1])
        previous = previous_optime(entry)
        if not previous.timestamp:
            return [operation for command in reversed(commands) for operation in operations_of(command)]
        before = read_entry(previous.timestamp)
        if before is None:
            return None
        entry = before


def part_before(entry: bytes) -> OpTime | None:
    """Return the optime of a transaction's previous entry; None for its first, and for entries of no transaction.

    `o` may be missing.
    """
    if get_field(entry, "txnNumber") is None or get_field(entry, "stmtId") is not None:
        return None
    previous = previous_optime(entry)
    return previous if previous.timestamp else None
