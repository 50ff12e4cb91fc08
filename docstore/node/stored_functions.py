"""The functions that a database keeps for its scripts, in `system.js`: `{_id: name, value: function}`."""

from __future__ import annotations

from docstore.bson import document_from, get_field
from docstore.bson.walk import STRING
from docstore.node.node import DataNode
from docstore.query.values import text_of
from docstore.storage import Family


def stored_functions(node: DataNode, database: str) -> bytes | None:
    """A document of them all by name; None where there are none."""
    collection = node.store.collection(f"{database}.system.js")
    if collection is None:
        return None
    found = []
    for raw in node.engine.values(Family.RECORDS, collection.prefix, collection.end):
        name, value = get_field(raw, "_id"), get_field(raw, "value")
        if name is not None and name[0] == STRING and value is not None:
            found.append((text_of(name), *value))
    return document_from(found) if found else None
