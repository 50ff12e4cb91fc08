"""First batches of several shards put together in one step, where they are all there is and it is not much.

Always true: what comes out is what a `MergedCursor` of the same shape would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from docstore.bson import array_documents, get_field
from docstore.errors import CommandError
from docstore.query.sort import Sort, parse_sort
from mongos.merge.merged import Shape
from mongos.relay.replies import success
from mongos.relay.targets import NamespaceTargets

_MOST_BYTES = 1 << 18
_LONGEST = 1024
"""What is longer than this is not sent again as it is, and not remembered."""
_BEGINS = b"\x03cursor\0"


def joined(replies: Sequence[bytes], shape: Shape, targets: NamespaceTargets) -> list[bytes] | None:
    """The documents of the replies, merged, cut and projected; None where there is more than they have, or much."""
    if sum(map(len, replies)) > _MOST_BYTES:
        return None
    documents: list[bytes] = []
    for reply in replies:
        found = success(reply, _BEGINS)
        if found is None or not targets.is_whole(reply, found.end):
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
    """The sort, where it is short and no condition of the find decides what it means."""
    return _plain_order(raw) if len(raw) <= _LONGEST else None


@lru_cache(maxsize=256)
def _plain_order(raw: bytes) -> Sort | None:
    try:
        return parse_sort(raw)
    except CommandError:
        return None
