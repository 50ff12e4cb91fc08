"""Required privileges: the actions on resources that a request must be allowed."""

from __future__ import annotations

from typing import NamedTuple

from docstore.namespace import split_namespace
from docstore.security.privileges import CLUSTER, Resource, collection, database


class Need(NamedTuple):
    """One action on one resource."""

    action: str
    resource: Resource


def on_cluster(*actions: str) -> tuple[Need, ...]:
    return tuple(Need(action, CLUSTER) for action in actions)


def on_database(db: str, *actions: str) -> tuple[Need, ...]:
    return tuple(Need(action, database(db)) for action in actions)


def on_namespace(namespace: str, *actions: str) -> tuple[Need, ...]:
    """Return needs on a collection; on the database if the namespace has no collection."""
    db, name = split_namespace(namespace)
    resource = collection(db, name) if name else database(db)
    return tuple(Need(action, resource) for action in actions)
