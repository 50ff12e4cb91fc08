"""Cursor replies of the router: first batches, further batches, and their limits."""

from __future__ import annotations

import struct
from typing import NamedTuple

from docstore.bson import document_from, documents_array, get_field
from docstore.bson.walk import BOOL, TIMESTAMP
from docstore.commands.context import Context
from docstore.commands.cursors import ClientCursor
from docstore.js import script_thread
from docstore.query.pausing import PAUSING, REFUSED
from mongos.merge.merged import MergedCursor

FIRST_BATCH = 101
MAX_BATCH_BYTES = 16 * 1024 * 1024
UNBOUNDED = 2**31 - 1
_INT64 = struct.Struct("<q")


def cursor_reply(
    documents: list[bytes],
    cursor_id: int,
    namespace: str,
    field: str,
    *,
    catalog: bool = False,
    at: int | None = None,
    partial: bool | None = False,
) -> bytes:
    """Return `{cursor: {<field>: [...], id, ns, atClusterTime?, partialResultsReturned?}}`.

    `field`: firstBatch or nextBatch; `at`: the packed timestamp of the snapshot; `partial`: results of a shard are
    missing.

    Cursors over the catalog, and those of missing collections, have the batch last.
    """
    encoded = namespace.encode()
    batch = (field, 0x04, documents_array(documents))
    identity = [
        ("id", 0x12, _INT64.pack(cursor_id)),
        ("ns", 0x02, struct.pack("<i", len(encoded) + 1) + encoded + b"\0"),
    ]
    if at is not None:
        identity.append(("atClusterTime", TIMESTAMP, at.to_bytes(8, "little")))
    if partial:
        identity.append(("partialResultsReturned", BOOL, b"\1"))
    return document_from([("cursor", 0x03, document_from([*identity, batch] if catalog else [batch, *identity]))])


def batch_comes_last(reply: bytes) -> bool:
    """True if a data node's reply has the field order of a cursor over the catalog."""
    cursor = get_field(reply, "cursor")
    return cursor is not None and cursor[1][5:8] == b"id\0"


class First(NamedTuple):
    """The first batch of a cursor.

    - `size`: the number of documents; None for the default.
    - `is_single`: no other batch follows.
    - `namespace`: the cursor's, unless it is that of the request.
    - `catalog`: the batch comes last in the reply.
    """

    size: int | None = None
    is_single: bool = False
    namespace: str = ""
    catalog: bool = False

    @property
    def most(self) -> int:
        """Return the largest number of documents."""
        return FIRST_BATCH if self.size is None else self.size


async def first_reply(context: Context, merged: MergedCursor, first: First) -> bytes:
    """Return the reply of the command that opens a cursor. The rest of the results is registered under the client's
    session. Errors: those of the cursor, which is closed then.
    """
    try:
        documents, done = await merged.next_batch(first.most, MAX_BATCH_BYTES) if first.most else ([], False)
    except BaseException:
        merged.close()
        raise
    return _opened(context, merged, first, documents, done)


def first_reply_at_hand(context: Context, merged: MergedCursor, first: First, until: float) -> bytes | None:
    """Return the reply if it can be made without waiting, before `until`; else None: `first_reply` continues from that
    position. Errors: those of `first_reply`.
    """
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
    try:
        found = merged.take(first.most, MAX_BATCH_BYTES, until) if first.most else ([], False)
    except BaseException:
        merged.close()
        raise
    finally:
        PAUSING.level = level
    return None if found is None else _opened(context, merged, first, *found)


def _opened(context: Context, merged: MergedCursor, first: First, documents: list[bytes], done: bool) -> bytes:
    namespace = first.namespace or context.namespace
    at = context.at_cluster_time
    if done or first.is_single:
        merged.close()
        return cursor_reply(documents, 0, namespace, "firstBatch", catalog=first.catalog, at=at, partial=merged.partial)
    merged.hold()
    lsid, transaction = (None, None) if context.session is None else (context.session.lsid, context.session.transaction)
    cursor = context.services.cursors.register(
        merged,
        namespace,
        lsid=lsid,
        transaction=transaction,
        origin=context.redacted_request,
        owner=context.owner,
        needs=context.needs,
    )
    cursor.apart = script_thread.current() is not None
    cursor.returned, cursor.batches = len(documents), 1
    cursor.at_cluster_time = at
    return cursor_reply(
        documents, cursor.id, namespace, "firstBatch", catalog=first.catalog, at=at, partial=merged.partial
    )


async def next_reply(context: Context, cursor: ClientCursor, batch_size: int | None) -> bytes:
    """The reply of a getMore on a checked-out cursor."""
    registry = context.services.cursors
    try:
        documents, done = await cursor.source.next_batch(batch_size or UNBOUNDED, MAX_BATCH_BYTES)
    except BaseException:
        registry.close(cursor)
        raise
    cursor.returned += len(documents)
    cursor.batches += 1
    if done:
        registry.close(cursor)
        identity = 0
    else:
        identity = cursor.id if registry.checkin(cursor) else 0
    return cursor_reply(
        documents, identity, cursor.namespace, "nextBatch", at=cursor.at_cluster_time, partial=cursor.source.partial
    )
