"""What a request needs to be allowed: actions on resources, by its command's declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from docstore.namespace import split_namespace
from docstore.security.privileges import CLUSTER, Resource, collection, database

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context


class Need(NamedTuple):
    """One action on one resource."""

    action: str
    resource: Resource


Needs = Callable[["Context", "Arguments"], Iterable[Need]]
"""All that a request needs, for a command of which the declared privilege does not say everything."""


def on_cluster(*actions: str) -> tuple[Need, ...]:
    return tuple(Need(action, CLUSTER) for action in actions)


def on_database(db: str, *actions: str) -> tuple[Need, ...]:
    return tuple(Need(action, database(db)) for action in actions)


def on_namespace(namespace: str, *actions: str) -> tuple[Need, ...]:
    """On a collection; on the database where the namespace names none."""
    db, name = split_namespace(namespace)
    resource = collection(db, name) if name else database(db)
    return tuple(Need(action, resource) for action in actions)
