"""The users and roles of a node, read from its own documents.

They replicate like any others, so that a member knows what the primary knew. A document that is no user's or no role's
means nothing: clients may write into these collections, if they have the privilege.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from docstore.bson import document_to_python, from_python, get_field, to_python
from docstore.collection.store import Store
from docstore.log import component
from docstore.namespace import AUTH_SCHEMA, ROLES_NS, SECURITY_NAMESPACES, USERS_NS, VERSIONS_NS
from docstore.security.names import RoleName, UserName
from docstore.security.pretence import ProfileRing
from docstore.security.roles import Role, RoleGraph
from docstore.security.scram import SALT_BYTES, SHA_1, SHA_256, Credential
from docstore.security.users import KnownBy, User, credentials_of, user_of

LOG = component("ACCESS")
_MOST_KNOWN = 1024
_MAX_PROFILES = 1000
"""Users whose credentials unknown names may seem to have."""
_NOBODY = UserName("", "")
_SOMEONE = from_python(
    {
        "credentials": {
            mechanism: Credential(mechanism, 10_000, bytes(SALT_BYTES[mechanism]), bytes(size), bytes(size)).document()
            for mechanism, size in ((SHA_1, 20), (SHA_256, 32))
        }
    }
)[1]
"""Read where there is no user, as the document of one that there is."""
_INVALID = (KeyError, TypeError, ValueError, AttributeError)


class _Known(NamedTuple):
    """A user as its document and all roles were in a generation."""

    generation: int
    raw: bytes
    user: User


class LocalUsers:
    """The directory of a data node. What follows from a user's document is remembered; the document is read each time.
    To look for the credentials of a user who is not there takes as long as for others.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalog = store.catalog
        self._known: dict[UserName, _Known] = {}
        self._seen_key = ""
        self._ring: tuple[tuple[int, bytes], ProfileRing] | None = None
        self.graph = RoleGraph(self.role)

    @property
    def generation(self) -> int:
        # Asked for with each request. Both only grow.
        return self._store.security_changes + self._catalog.security_changes

    async def was_used(self) -> bool:
        if self._raw(VERSIONS_NS, AUTH_SCHEMA) is not None:
            return True
        kept = map(self._store.collection, SECURITY_NAMESPACES)
        return any(collection is not None and collection.count > 0 for collection in kept)

    def invalidate(self) -> None:
        """Read everything anew."""
        self._store.security_changes += 1

    async def find(self, name: UserName) -> User | None:
        raw = self._raw(USERS_NS, name.key)
        if raw is None:
            return None
        generation = self.generation
        known = self._known.get(name)
        if known is not None and known.generation == generation and known.raw == raw:
            return known.user
        try:
            found = user_of(document_to_python(raw), self.graph)
        except _INVALID as error:
            LOG.warning("The document of a user is not one of a user", user=str(name), reason=repr(error))
            return None
        if found.name != name:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = _Known(generation, raw, found)
        return found

    async def known_by(self, name: UserName, secret: bytes) -> KnownBy:
        raw = self._raw(USERS_NS, name.key)
        # One that is there and one that is not are looked for, whoever is asked about; then something is read.
        if raw is None:
            self._raw(USERS_NS, self._present())
        else:
            self._raw(USERS_NS, _NOBODY.key)
        try:
            found = credentials_of({"credentials": _field(_SOMEONE if raw is None else raw, "credentials")})
        except _INVALID as error:
            LOG.warning("The document of a user is not one of a user", user=str(name), reason=repr(error))
            found, raw = {}, None
        profile = self._ring_of(secret).profile(name)
        self._seen_key = self._seen_key if raw is None else name.key
        return KnownBy(None if raw is None else found, profile)

    def _ring_of(self, secret: bytes) -> ProfileRing:
        """Return the ring of the users that there are now, or of so many of them."""
        key = (self.generation, secret)
        if self._ring is None or self._ring[0] != key:
            kept = islice(self._all_raw(USERS_NS), _MAX_PROFILES)
            users = ((str(_field(raw, "_id")), _field(raw, "credentials")) for raw in kept)
            self._ring = (key, ProfileRing(secret, users))
        return self._ring[1]

    def _present(self) -> str:
        """The key of a user that is there, where there is any."""
        if not self._seen_key:
            document = next(self._all(USERS_NS, "user"), _NOBODY.document())
            self._seen_key = UserName(document["user"], document["db"]).key
        return self._seen_key

    def role(self, name: RoleName) -> Role | None:
        """A role of users' own."""
        document = self.role_document(name)
        if document is None:
            return None
        try:
            return Role.from_document(document)
        except _INVALID as error:
            LOG.warning("The document of a role is not one of a role", role=str(name), reason=repr(error))
            return None

    def user_document(self, name: UserName) -> dict[str, Any] | None:
        return self._by_id(USERS_NS, name.key)

    def role_document(self, name: RoleName) -> dict[str, Any] | None:
        return self._by_id(ROLES_NS, name.key)

    def user_documents(self) -> Iterator[dict[str, Any]]:
        """Those of all users, in order of their names."""
        return self._all(USERS_NS, "user")

    def role_documents(self) -> Iterator[dict[str, Any]]:
        """Those of all roles of users' own, in order of their names."""
        return self._all(ROLES_NS, "role")

    def _by_id(self, namespace: str, key: str) -> dict[str, Any] | None:
        raw = self._raw(namespace, key)
        return None if raw is None else document_to_python(raw)

    def _raw(self, namespace: str, key: str) -> bytes | None:
        collection = self._store.collection(namespace)
        found = None if collection is None else collection.by_id(self._store.engine, from_python(key))
        return None if found is None else found[1]

    def _all_raw(self, namespace: str) -> Iterator[bytes]:
        collection = self._store.collection(namespace)
        return iter(()) if collection is None else collection.documents(self._store.engine)

    def _all(self, namespace: str, field: str) -> Iterator[dict[str, Any]]:
        documents = map(document_to_python, self._all_raw(namespace))
        yield from sorted(
            (each for each in documents if isinstance(each.get(field), str) and isinstance(each.get("db"), str)),
            key=lambda each: (each[field], each["db"]),
        )


def _field(document: bytes, name: str) -> Any:
    """The value of a field; None where there is none."""
    value = get_field(document, name)
    return None if value is None else to_python(value)
