"""The functions that the databases of a node keep for their scripts."""

from __future__ import annotations

from docstore.js.stored import COLLECTION, functions_of
from docstore.node.node import DataNode


def stored_functions(node: DataNode, database: str) -> bytes | None:
    """A document of them all by name; None where there are none."""
    collection = node.store.collection(f"{database}.{COLLECTION}")
    return None if collection is None else functions_of(collection.documents(node.engine))
