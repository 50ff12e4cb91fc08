"""The oplog entries of a transaction: a command `applyOps` of its operations, as MongoDB 6.0 writes them.

What is too large for one entry is spread over several, in order: all but the last say `partialTxn`, and the last how
many operations there are. Each has a `prevOpTime` that leads to the one before; only the last takes effect.

Where the last says `prepare`, none has an effect before a command `commitTransaction` follows, whose `prevOpTime` leads
to it; `abortTransaction` says that none ever has. What is committed counts as written at `commitTimestamp`, which is
not before the `prepare` and before the entry that says so.
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
"""Of the operations in one entry; a single one may be larger."""

_NAME = "applyOps"
_IS_PARTIAL = b"\x08" + PARTIAL.encode() + b"\0\1"
_IS_PREPARED = b"\x08" + PREPARE.encode() + b"\0\1"
_ONE = b"\0\0\0\0\0\0\0\xf0\x3f"
_COMMIT_HEAD = b"\x01" + COMMIT.encode() + _ONE + b"\x11commitTimestamp\0"
_ABORT = b"\x01" + ABORT.encode() + _ONE
_TIMESTAMP = struct.Struct("<Q")


def operations_commands(operations: Sequence[bytes], *, prepare: bool = False) -> list[bytes]:
    """The `o` of each entry, in order; one at least. `prepare`: they have no effect yet."""
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
    places: Iterable[bytes] = PLACES
    if len(operations) > len(PLACES):
        places = [b"\x03%d\0" % place for place in range(len(operations))]
    members = b"".join(chain.from_iterable(zip(places, operations, strict=False)))
    return b"\x04applyOps\0" + enclosed(members)


def operations_of(command: bytes) -> list[bytes]:
    """The operations that an entry's `o` holds."""
    found = get_field(command, _NAME)
    return [] if found is None else array_documents(found[1])


def commit_command(timestamp: int) -> bytes:
    """The `o` of the entry that commits what was prepared, as of that timestamp."""
    return enclosed(b"".join((_COMMIT_HEAD, _TIMESTAMP.pack(timestamp), b"\x08prepared\0\1")))


def abort_command() -> bytes:
    """The `o` of the entry that gives up what was prepared."""
    return enclosed(_ABORT)


def commit_timestamp(command: bytes) -> int | None:
    """As of when an entry's `o` commits what was prepared; None for other commands."""
    if get_field(command, COMMIT) is None:
        return None
    found = get_field(command, "commitTimestamp")
    assert found is not None, "what was prepared is committed as of a timestamp"
    timestamp: int = _TIMESTAMP.unpack(found[1])[0]
    return timestamp


def chained_operations(entry: bytes, read_entry: Callable[[int], bytes | None]) -> list[bytes] | None:
    """The operations of the transaction that the entry ends, or commits; None where the oplog does not have all of
    them. `read_entry` gives the entry of a timestamp.
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
    """Where the part before that one stands, if the entry is one of several of a transaction and not the first.

    `o` may be missing.
    """
    if get_field(entry, "txnNumber") is None or get_field(entry, "stmtId") is not None:
        return None
    previous = previous_optime(entry)
    return previous if previous.timestamp else None
