"""Pre-images and post-images, for streams that request them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from docstore.bson import get_field
from docstore.collection.oplog.diff import apply_update
from docstore.collection.oplog.pre_images import stored_pre_image

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.node.change_streams.operation import Operation
    from docstore.storage.engine import Reader


def pre_image(store: Store, operation: Operation) -> bytes | None:
    """Return the pre-image of the operation, or None if none is stored (any more)."""
    return stored_pre_image(store.engine, operation.timestamp, operation.index)


def post_image(before: bytes, operation: Operation) -> bytes:
    """Return the post-image of an update, computed from its pre-image."""
    return apply_update(before, operation.o)


def current_document(store: Store, view: Reader, operation: Operation) -> bytes | None:
    """Return the updated document as it is in the view, or None if it was deleted."""
    assert operation.uuid is not None, "documents are in collections"
    assert operation.o2 is not None, "an update says of which document"
    coll = store.catalog.by_uuid(UUID(bytes=operation.uuid))
    identity = get_field(operation.o2, "_id")
    assert identity is not None, "a document has an _id"
    match = None if coll is None else coll.by_id(view, identity)
    return None if match is None else match[1]
