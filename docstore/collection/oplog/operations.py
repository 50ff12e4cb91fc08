"""The oplog entries of a transaction: a command `applyOps` of its operations, as MongoDB 6.0 writes them.

What is too large for one entry is spread over several, in order: all but the last say `partialTxn`, and the last how
many operations there are. Each has a `prevOpTime` that leads to the one before; only the last takes effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.bson import array_documents, get_field
from docstore.bson.build import enclosed
from docstore.collection.oplog.entry import entry_head

COMMAND_HEAD = entry_head("c", "admin.$cmd", None)
PARTIAL = "partialTxn"
MOST_BYTES = 16 * 1024 * 1024
"""Of the operations in one entry; a single one may be larger."""

_NAME = "applyOps"
_IS_PARTIAL = b"\x08" + PARTIAL.encode() + b"\0\1"


def operations_commands(operations: Sequence[bytes]) -> list[bytes]:
    """The `o` of each entry, in order, for one operation at least."""
    parts: list[list[bytes]] = [[]]
    size = 0
    for operation in operations:
        if parts[-1] and size + len(operation) > MOST_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(operation)
        size += len(operation) + 8
    if len(parts) == 1:
        return [enclosed(_array(parts[0]))]
    commands = [enclosed(_array(part) + _IS_PARTIAL) for part in parts[:-1]]
    commands.append(enclosed(_array(parts[-1]) + b"\x12count\0" + len(operations).to_bytes(8, "little")))
    return commands


def _array(operations: Sequence[bytes]) -> bytes:
    members = b"".join([b"\x03%d\0" % place + operation for place, operation in enumerate(operations)])
    return b"\x04applyOps\0" + enclosed(members)


def operations_of(command: bytes) -> list[bytes]:
    """The operations that an entry's `o` holds."""
    found = get_field(command, _NAME)
    return [] if found is None else array_documents(found[1])
