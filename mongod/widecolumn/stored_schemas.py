"""The stored definitions of keyspaces, as they are shown to routers."""

from __future__ import annotations

from docstore.bson import ARRAY, OBJECT, document_from, documents_array, from_python
from docstore.collection.oplog.entry import uuid_value
from docstore.collection.store import Store
from docstore.widecolumn.node.keyspaces import MARK


def stored_fields(store: Store, keyspace: str) -> list[tuple[str, int, bytes]]:
    """Return the fields that show a keyspace; none if there is none."""
    mark = store.collection(f"{keyspace}.{MARK}")
    if mark is None:
        return []
    families = [
        document_from(
            [
                ("name", *from_python(collection.name)),
                ("uuid", *uuid_value(collection.uuid)),
                ("options", OBJECT, collection.options.raw),
            ]
        )
        for collection in store.catalog.in_database(keyspace)
        if collection.options.family is not None
    ]
    return [("keyspace", OBJECT, mark.options.raw), ("families", ARRAY, documents_array(families))]
