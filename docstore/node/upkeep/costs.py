"""A test for names that are no collection's, whose costs of requests are forgotten first."""

from __future__ import annotations

from collections.abc import Callable

from docstore.collection.store import Store


def unknown_names(store: Store) -> Callable[[str], bool]:
    """Return whether a name that requests gave is no collection, and stands for no command on a database either."""
    return lambda name: "$cmd" not in name and store.collection(name) is None
