"""Transfer of session rows (retryable writes) to a member in initial sync.

The rows are in no collection of the source, so an own command returns them, a range of keys at a time. A row without
the oplog entries that it refers to suffices: a repeated statement is then rejected instead of executed twice. A
prepared transaction needs its entries, so the oplog is copied from the first of them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.binary import Binary

from docstore.bson import document_to_python
from docstore.collection.oplog.operations import part_before
from docstore.collection.oplog.oplog import entry_optime
from docstore.key_layout import SESSION_PREFIX, after_prefix
from docstore.optime import NULL_OPTIME, OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.replicaset.sync.remote import RemoteMember

COMMAND_NAME = "replSetFetchSessions"
ROWS_AT_ONCE = 5_000


def rows_after(store: Store, key: bytes) -> dict[str, Any]:
    """Return the reply: `rows`, `more` and `from`.

    `rows` is an array of alternating keys and values above `key`; `more` is True if further rows follow. `from`: the
    optime of the entry from which the oplog has everything that the data lack at this moment; null if the oplog is
    empty.
    """
    rows: list[Binary] = []
    for row_key, row in store.engine.items(Family.META, max(SESSION_PREFIX, key + b"\0"), after_prefix(SESSION_PREFIX)):
        rows += (Binary(row_key), Binary(row))
        if len(rows) == 2 * ROWS_AT_ONCE:
            break
    begin = _log_begin(store)
    return {
        "rows": rows,
        "more": len(rows) == 2 * ROWS_AT_ONCE,
        "from": None if begin is None else begin.to_document(),
    }


def _log_begin(store: Store) -> OpTime | None:
    oplog, needed = store.oplog, store.sessions.oldest_needed
    assert oplog is not None, "a member of a set has one"
    if oplog.last == NULL_OPTIME:
        return None
    entry = oplog.entry(oplog.last.timestamp)
    while entry is not None and (before := part_before(entry)) is not None:
        # The newest entry is applied too, which needs all entries of its transaction.
        entry = oplog.entry(before.timestamp)
    first = None if needed is None else oplog.entry(needed)
    return min((entry_optime(candidate) for candidate in (entry, first) if candidate is not None), default=None)


async def log_begin(remote: RemoteMember) -> OpTime | None:
    """Return the entry from which a copy begun now needs the source's oplog; None if that is empty.

    Errors: NetworkError, CommandError.
    """
    reply = await remote.command("admin", {COMMAND_NAME: 1, "after": Binary(after_prefix(SESSION_PREFIX))})
    begin = document_to_python(reply)["from"]
    return None if begin is None else OpTime.from_document(begin)


async def copy_rows(store: Store, remote: RemoteMember) -> int:
    """Copy all session rows of the source; return their number. Errors: NetworkError, CommandError."""
    copied, key, has_more = 0, b"", True
    while has_more:
        reply = document_to_python(await remote.command("admin", {COMMAND_NAME: 1, "after": Binary(key)}))
        rows, has_more = reply["rows"], reply["more"]
        batch = Batch()
        for key, row in zip(rows[::2], rows[1::2], strict=True):
            batch.put(Family.META, bytes(key), bytes(row))
        if batch:
            store.engine.write(batch)
        copied += len(rows) // 2
    store.sessions.forget()
    return copied
