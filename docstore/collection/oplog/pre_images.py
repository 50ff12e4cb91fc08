"""Pre-images: documents as they were before a change, for change streams of collections with that option.

- A pre-image is written in the batch of the change, beside its oplog entry, by each member. An undo of the entry
  removes it.
- Its key is the entry's timestamp and the operation's index in the entry, so the oldest form a leading range.
- It is removed with its entry, or sooner if an expiry is configured.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from docstore.key_layout import PRE_IMAGE_PREFIX, after_prefix, long_of, pre_image_key
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.storage import Engine, Reader

_WALL_BYTES = 8
_END = after_prefix(PRE_IMAGE_PREFIX)


def pre_image_value(wall_ms: int, document: bytes) -> bytes:
    """Return the stored value of a document changed at `wall_ms`, in milliseconds since 1970."""
    return wall_ms.to_bytes(_WALL_BYTES, "big", signed=True) + document


def stored_pre_image(reader: Reader, timestamp: int, index: int) -> bytes | None:
    """Return the pre-image of operation `index` of the entry at a packed timestamp."""
    value = reader.get(Family.META, pre_image_key(timestamp, index))
    return None if value is None else value[_WALL_BYTES:]


def remove_pre_images(engine: Engine, first: int, until_ms: int | None, deadline: float) -> bool:
    """Remove pre-images of entries before the packed timestamp `first`, and of changes before `until_ms`.

    Stop at the monotonic time `deadline`; True if more may remain.
    """
    cut, has_more = 0, False
    for key, value in engine.items(Family.META, PRE_IMAGE_PREFIX, _END):
        timestamp = long_of(key, len(PRE_IMAGE_PREFIX))
        wall_ms = int.from_bytes(value[:_WALL_BYTES], "big", signed=True)
        if timestamp >= first and (until_ms is None or wall_ms >= until_ms):
            break
        cut = timestamp + 1
        if monotonic() >= deadline:
            has_more = True
            break
    if cut:
        batch = Batch()
        batch.delete_range(Family.META, PRE_IMAGE_PREFIX, pre_image_key(cut, 0))
        engine.write(batch)
    return has_more
