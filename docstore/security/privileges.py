"""Privileges: which actions on which resources.

A resource is a collection (`""` for all of a database, or of all databases), the cluster as a whole, the buckets of
time series, or everything. Always true: a collection whose name begins with "system." is meant by its own name only,
and the databases `local` and `config` by their own names only; `EVERYTHING` alone means them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

ANY_ACTION = "anyAction"
_BUCKETS = "system.buckets."
_APART = frozenset(("local", "config"))


class Kind(Enum):
    """The kinds of resources."""

    NAMESPACE = "namespace"
    CLUSTER = "cluster"
    BUCKETS = "system_buckets"
    EVERYTHING = "anyResource"


class Resource(NamedTuple):
    """The resource of a privilege; an empty `db` or `collection` means all."""

    kind: Kind
    db: str = ""
    collection: str = ""

    def document(self) -> dict[str, Any]:
        """Return the form in the document of a role."""
        if self.kind is Kind.NAMESPACE:
            return {"db": self.db, "collection": self.collection}
        if self.kind is Kind.BUCKETS:
            return {"system_buckets": self.collection, **({"db": self.db} if self.db else {})}
        return {self.kind.value: True}


CLUSTER = Resource(Kind.CLUSTER)
EVERYTHING = Resource(Kind.EVERYTHING)
ALL_DATABASES = Resource(Kind.NAMESPACE)


def database(db: str) -> Resource:
    return Resource(Kind.NAMESPACE, db)


def collection(db: str, name: str) -> Resource:
    return Resource(Kind.NAMESPACE, db, name)


def covering(resource: Resource) -> Iterator[Resource]:
    """Return the resources whose privileges include this resource."""
    yield EVERYTHING
    yield resource
    if resource.kind is not Kind.NAMESPACE:
        return
    db, name = resource.db, resource.collection
    if not db and name:
        # It holds in `config` and `local` too, of which a privilege on all databases says nothing.
        return
    if name.startswith(_BUCKETS):
        bucket = name[len(_BUCKETS) :]
        for namespace in ((db, bucket), (db, ""), ("", bucket), ("", "")):
            yield Resource(Kind.BUCKETS, *namespace)
    if not name.startswith("system.") and not (db == "local" and name.startswith("replset.")):
        if db not in _APART:
            yield ALL_DATABASES
        yield database(db)
    if name:
        yield collection("", name)


class Privileges:
    """Actions by resource."""

    __slots__ = ("_actions",)

    def __init__(self, granted: Mapping[Resource, Iterable[str]] | None = None) -> None:
        self._actions: dict[Resource, set[str]] = {}
        for resource, actions in (granted or {}).items():
            self.grant(resource, actions)

    def grant(self, resource: Resource, actions: Iterable[str]) -> None:
        self._actions.setdefault(resource, set()).update(actions)

    def revoke(self, resource: Resource, actions: Iterable[str]) -> None:
        """Remove actions from exactly this resource."""
        remaining_actions = self._actions.get(resource)
        if remaining_actions is not None:
            remaining_actions.difference_update(actions)
            if not remaining_actions:
                del self._actions[resource]

    def join(self, privileges: Privileges) -> None:
        for resource, actions in privileges.items():
            self.grant(resource, actions)

    def allow(self, resource: Resource, action: str) -> bool:
        """True if the privileges allow the action on the resource."""
        for covering_resource in covering(resource):
            actions = self._actions.get(covering_resource)
            if actions is not None and (action in actions or ANY_ACTION in actions):
                return True
        return False

    def on_any_in(self, db: str, *actions: str) -> bool:
        """True if one of the actions is allowed on anything in the database; without `actions`, any action."""
        for resource, granted in self._actions.items():
            if actions and ANY_ACTION not in granted and granted.isdisjoint(actions):
                continue
            if resource.kind is Kind.EVERYTHING or resource.db == db:
                return True
            if resource.kind is Kind.NAMESPACE and not resource.db and (resource.collection or db not in _APART):
                return True
        return False

    def items(self) -> Iterable[tuple[Resource, set[str]]]:
        return self._actions.items()

    def documents(self) -> list[dict[str, Any]]:
        """Return the form in the document of a role, with actions in order."""
        return [
            {"resource": resource.document(), "actions": sorted(actions)} for resource, actions in self._actions.items()
        ]

    def __bool__(self) -> bool:
        return bool(self._actions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Privileges) and self._actions == other._actions

    __hash__ = None  # type: ignore[assignment]
