"""User-defined roles, and the inheritance of privileges among roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from docstore.security import builtin_roles
from docstore.security.names import RoleName
from docstore.security.privileges import Kind, Privileges, Resource
from docstore.security.restrictions import Restriction, parsed_restrictions


def role_names(documents: Iterable[Mapping[str, Any]]) -> tuple[RoleName, ...]:
    """Return the role names of a list of `{role, db}` in a user's or role's document."""
    return tuple(RoleName(role["role"], role["db"]) for role in documents)


def resource_of(document: Mapping[str, Any]) -> Resource:
    """The resource of a stored privilege."""
    if document.get("cluster"):
        return Resource(Kind.CLUSTER)
    if document.get("anyResource"):
        return Resource(Kind.EVERYTHING)
    if "system_buckets" in document:
        return Resource(Kind.BUCKETS, document.get("db", ""), document["system_buckets"])
    return Resource(Kind.NAMESPACE, document["db"], document["collection"])


def privileges_of_documents(documents: Iterable[Mapping[str, Any]]) -> Privileges:
    """Parse stored privileges."""
    privileges = Privileges()
    for document in documents:
        privileges.grant(resource_of(document["resource"]), document["actions"])
    return privileges


@dataclass(frozen=True, slots=True)
class Role:
    """A role's own privileges and restrictions, and the roles that it contains."""

    name: RoleName
    roles: tuple[RoleName, ...] = ()
    privileges: Privileges = field(default_factory=Privileges)
    restrictions: tuple[Restriction, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Parse a document of `admin.system.roles`. Errors: KeyError, TypeError, ValueError for an invalid one."""
        return cls(
            RoleName(document["role"], document["db"]),
            role_names(document.get("roles", ())),
            privileges_of_documents(document.get("privileges", ())),
            parsed_restrictions(document.get("authenticationRestrictions", ())),
        )


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The effect of a set of roles. `roles`: all of them, including contained ones, in order."""

    roles: tuple[RoleName, ...]
    privileges: Privileges
    restrictions: tuple[tuple[Restriction, ...], ...]


class RoleGraph:
    """Roles by name; `stored` finds user-defined ones."""

    def __init__(self, stored: Callable[[RoleName], Role | None]) -> None:
        self._stored = stored

    def find(self, name: RoleName) -> Role | None:
        if builtin_roles.is_builtin(name):
            return Role(name, (), builtin_roles.privileges_of(name))
        return self._stored(name)

    def inherited(self, names: Iterable[RoleName]) -> Inheritance:
        """Return the effect of these roles; dropped roles add nothing."""
        roles: dict[RoleName, Role] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            role = None if name in roles else self.find(name)
            if role is not None:
                roles[name] = role
                waiting += role.roles
        privileges = Privileges()
        for role in roles.values():
            privileges.join(role.privileges)
        return Inheritance(
            tuple(sorted(roles)), privileges, tuple(role.restrictions for role in roles.values() if role.restrictions)
        )
