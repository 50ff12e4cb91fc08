"""The users that a process knows, and the directory that it finds them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from docstore.security.names import RoleName, UserName
from docstore.security.pretence import Profile
from docstore.security.privileges import Privileges
from docstore.security.restrictions import Restriction, parsed_restrictions
from docstore.security.roles import Inheritance, RoleGraph, privileges_of_documents, role_names
from docstore.security.scram import MECHANISMS, Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """`granted`: the roles it was given; `roles`: all that it has, through others too. `restrictions`: lists each of
    which must admit its client.
    """

    name: UserName
    user_id: bytes = b""
    credentials: Mapping[str, Credential]
    roles: tuple[RoleName, ...]
    granted: frozenset[RoleName] = frozenset()
    privileges: Privileges
    restrictions: tuple[tuple[Restriction, ...], ...] = ()

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(self.credentials)


class KnownBy(NamedTuple):
    """`credentials`: the user's. None for an unknown user, who seems to have credentials with the iteration counts of
    `profile`; that is empty if no users are known.
    """

    credentials: Mapping[str, Credential] | None
    profile: Profile = MappingProxyType({})


class UserDirectory(Protocol):
    """A directory of users."""

    @property
    def generation(self) -> int:
        """A number that changes whenever a user or a role may have changed."""

    def invalidate(self) -> None:
        """Discard cached users: users or roles may have changed."""

    async def was_used(self) -> bool:
        """Return whether there has ever been a user or a role."""

    async def find(self, name: UserName) -> User | None:
        """Return the user in its current state, or that of a moment ago."""

    async def known_by(self, name: UserName, secret: bytes) -> KnownBy:
        """Return a user's current credentials. For an unknown user, return those that `secret` determines, after the
        same time.
        """


class NoUsers:
    """The directory of a process without users."""

    generation = 0

    def invalidate(self) -> None:
        return

    async def was_used(self) -> bool:
        return False

    async def known_by(self, _name: UserName, _secret: bytes) -> KnownBy:
        return KnownBy(None)

    async def find(self, _name: UserName) -> User | None:
        return None


def credentials_of(document: Mapping[str, Any]) -> dict[str, Credential]:
    """Return the credentials of a user's document, by mechanism."""
    stored = document.get("credentials")
    credentials: dict[str, Credential] = {}
    if not isinstance(stored, dict):
        return credentials
    for mechanism in MECHANISMS:
        credential = Credential.from_document(mechanism, stored.get(mechanism, {}))
        if credential is not None:
            credentials[mechanism] = credential
    return credentials


def user_of(document: Mapping[str, Any], graph: RoleGraph) -> User:
    """Parse a document of `admin.system.users`. Errors: KeyError, TypeError, ValueError for an invalid one."""
    return _user(document, graph.inherited(role_names(document.get("roles", ()))))


def user_of_reply(document: Mapping[str, Any]) -> User:
    """Parse a complete reply of usersInfo. Errors: as `user_of`."""
    restrictions = tuple(map(parsed_restrictions, document.get("inheritedAuthenticationRestrictions", ())))
    privileges = privileges_of_documents(document["inheritedPrivileges"])
    return _user(document, Inheritance(role_names(document["inheritedRoles"]), privileges, restrictions))


def _user(document: Mapping[str, Any], inheritance: Inheritance) -> User:
    own = parsed_restrictions(document.get("authenticationRestrictions", ()))
    return User(
        name=UserName(document["user"], document["db"]),
        user_id=bytes(document.get("userId", b"")),
        credentials=credentials_of(document),
        roles=inheritance.roles,
        granted=frozenset(role_names(document.get("roles", ()))),
        privileges=inheritance.privileges,
        restrictions=((own,) if own else ()) + inheritance.restrictions,
    )
