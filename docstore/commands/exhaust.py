"""Exhaust cursors: one getMore is answered by all batches until the cursor ends."""

from __future__ import annotations

from docstore.bson import get_path
from docstore.bson.walk import INT64
from docstore.commands.context import Context
from docstore.commands.values import integer_of


def following_batch(context: Context, reply: bytes) -> bytes | None:
    """Return the next implied request (`Command.following`): the same one, while the cursor is open.

    The cursor ends with the connection: no one else knows how far its client has read.
    """
    cursors = context.connection.cursors
    value = get_path(reply, "cursor.id")
    if value is not None and value[0] == INT64 and (cursor_id := integer_of(*value)):
        cursors.add(cursor_id)
        return context.raw
    requested = get_path(context.raw, "getMore")
    if requested is not None and requested[0] == INT64:
        cursors.discard(integer_of(*requested))
    return None
