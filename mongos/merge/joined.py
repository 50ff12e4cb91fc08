"""Merge of the shards' first batches in one step, if they are complete and small.

Invariant: the result equals that of a `MergedCursor` of the same shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from docstore.bson import array_documents, get_field
from docstore.errors import CommandError
from docstore.query.sort import Sort, parse_sort
from mongos.limits import MAX_CACHED_SORT_BYTES, MAX_JOINED_REPLY_BYTES
from mongos.merge.merged import Shape
from mongos.relay.replies import CURSOR, end_of_own_fields
from mongos.relay.targets import NamespaceTargets


def joined(replies: Sequence[bytes], shape: Shape, targets: NamespaceTargets) -> list[bytes] | None:
    """The documents of the replies, merged, cut and projected; None where there is more than they have, or much."""
    if sum(map(len, replies)) > MAX_JOINED_REPLY_BYTES:
        return None
    documents: list[bytes] = []
    for reply in replies:
        end = end_of_own_fields(reply, CURSOR)
        if not end or not targets.is_whole(reply, end):
            return None
        cursor = get_field(reply, "cursor")
        batch = None if cursor is None else get_field(cursor[1], "firstBatch")
        if batch is None:
            return None
        documents += array_documents(batch[1])
    stop = shape.skip + shape.limit if shape.limit else len(documents)
    if shape.sort is not None:
        keys = list(map(shape.sort.sort_key, documents))
        documents = [documents[at] for at in sorted(range(len(keys)), key=keys.__getitem__)[shape.skip : stop]]
    elif shape.skip or shape.limit:
        documents = documents[shape.skip : stop]
    return documents if shape.project is None else list(map(shape.project, documents))


def plain_order(raw: bytes) -> Sort | None:
    """Return the sort if it is short and independent of the filter; else None."""
    return _plain_order(raw) if len(raw) <= MAX_CACHED_SORT_BYTES else None


@lru_cache(maxsize=256)
def _plain_order(raw: bytes) -> Sort | None:
    try:
        return parse_sort(raw)
    except CommandError:
        return None
