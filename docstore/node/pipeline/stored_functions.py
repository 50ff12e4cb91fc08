"""JavaScript functions stored in databases for use in their scripts."""

from __future__ import annotations

from docstore.js.stored import COLLECTION, functions_of
from docstore.node.node import DataNode


def stored_functions(node: DataNode, database: str) -> bytes | None:
    """Return a document of all stored functions by name; None if there are none."""
    collection = node.store.collection(f"{database}.{COLLECTION}")
    return None if collection is None else functions_of(collection.documents(node.engine))
