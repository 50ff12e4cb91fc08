"""The users and roles of a node, read from its own documents.

* The documents replicate like any others, so a secondary knows what the primary knew.
* Invalid documents are ignored: clients with the privilege may write to these collections.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from docstore.bson import document_to_python, from_python, get_field, to_python
from docstore.collection.store import Store
from docstore.log import component
from docstore.namespace import AUTH_SCHEMA, ROLES_NS, SECURITY_NAMESPACES, USERS_NS, VERSIONS_NS
from docstore.node.limits import MAX_CACHED_USERS, MAX_DECOY_USERS
from docstore.security.names import RoleName, UserName
from docstore.security.pretence import ProfileRing
from docstore.security.roles import Role, RoleGraph
from docstore.security.scram import SALT_BYTES, SHA_1, SHA_256, Credential
from docstore.security.users import KnownBy, User, credentials_of, user_of

LOG = component("ACCESS")
_NOBODY = UserName("", "")
_SOMEONE = from_python(
    {
        "credentials": {
            mechanism: Credential(mechanism, 10_000, bytes(SALT_BYTES[mechanism]), bytes(size), bytes(size)).document()
            for mechanism, size in ((SHA_1, 20), (SHA_256, 32))
        }
    }
)[1]
"""Decoy document, read in place of a missing user's."""
_INVALID = (KeyError, TypeError, ValueError, AttributeError)


class _ParsedUser(NamedTuple):
    """A user, parsed from its document under the roles of one generation."""

    generation: int
    raw: bytes
    user: User


class LocalUsers:
    """The user directory of a data node.

    The document of a user is read on each lookup; its parsed form is cached. Looking up the credentials of a missing
    user takes as long as for an existing one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalog = store.catalog
        self._known: dict[UserName, _ParsedUser] = {}
        self._seen_key = ""
        self._ring: tuple[tuple[int, bytes], ProfileRing] | None = None
        self.graph = RoleGraph(self.role)

    @property
    def generation(self) -> int:
        # Read on each request. Both counters only grow.
        return self._store.security_changes + self._catalog.security_changes

    async def was_used(self) -> bool:
        if self._raw(VERSIONS_NS, AUTH_SCHEMA) is not None:
            return True
        collections = map(self._store.collection, SECURITY_NAMESPACES)
        return any(collection is not None and collection.count > 0 for collection in collections)

    def invalidate(self) -> None:
        """Drop all cached users and roles."""
        self._store.security_changes += 1

    async def find(self, name: UserName) -> User | None:
        raw = self._raw(USERS_NS, name.key)
        if raw is None:
            return None
        generation = self.generation
        cache_entry = self._known.get(name)
        if cache_entry is not None and cache_entry.generation == generation and cache_entry.raw == raw:
            return cache_entry.user
        try:
            user = user_of(document_to_python(raw), self.graph)
        except _INVALID as error:
            LOG.warning("The document of a user is not one of a user", user=str(name), reason=repr(error))
            return None
        if user.name != name:
            return None
        if len(self._known) >= MAX_CACHED_USERS:
            self._known.clear()
        self._known[name] = _ParsedUser(generation, raw, user)
        return user

    async def known_by(self, name: UserName, secret: bytes) -> KnownBy:
        raw = self._raw(USERS_NS, name.key)
        # For every name an existing and a missing user are looked up, then one document is read.
        if raw is None:
            self._raw(USERS_NS, self._present())
        else:
            self._raw(USERS_NS, _NOBODY.key)
        try:
            credentials = credentials_of({"credentials": _field(_SOMEONE if raw is None else raw, "credentials")})
        except _INVALID as error:
            LOG.warning("The document of a user is not one of a user", user=str(name), reason=repr(error))
            credentials, raw = {}, None
        profile = self._ring_of(secret).profile(name)
        self._seen_key = self._seen_key if raw is None else name.key
        return KnownBy(None if raw is None else credentials, profile)

    def _ring_of(self, secret: bytes) -> ProfileRing:
        """Return the ring of existing users, up to MAX_DECOY_USERS of them."""
        key = (self.generation, secret)
        if self._ring is None or self._ring[0] != key:
            documents = islice(self._all_raw(USERS_NS), MAX_DECOY_USERS)
            users = ((str(_field(raw, "_id")), _field(raw, "credentials")) for raw in documents)
            self._ring = (key, ProfileRing(secret, users))
        return self._ring[1]

    def _present(self) -> str:
        """Return the key of some existing user, if there is one."""
        if not self._seen_key:
            document = next(self._all(USERS_NS, "user"), _NOBODY.document())
            self._seen_key = UserName(document["user"], document["db"]).key
        return self._seen_key

    def role(self, name: RoleName) -> Role | None:
        """Return a user-defined role, or None."""
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
        """Return the documents of all users, in order of their names."""
        return self._all(USERS_NS, "user")

    def role_documents(self) -> Iterator[dict[str, Any]]:
        """Return the documents of all user-defined roles, in order of their names."""
        return self._all(ROLES_NS, "role")

    def _by_id(self, namespace: str, key: str) -> dict[str, Any] | None:
        raw = self._raw(namespace, key)
        return None if raw is None else document_to_python(raw)

    def _raw(self, namespace: str, key: str) -> bytes | None:
        collection = self._store.collection(namespace)
        match = None if collection is None else collection.by_id(self._store.engine, from_python(key))
        return None if match is None else match[1]

    def _all_raw(self, namespace: str) -> Iterator[bytes]:
        collection = self._store.collection(namespace)
        return iter(()) if collection is None else collection.documents(self._store.engine)

    def _all(self, namespace: str, field: str) -> Iterator[dict[str, Any]]:
        documents = map(document_to_python, self._all_raw(namespace))
        yield from sorted(
            (
                document
                for document in documents
                if isinstance(document.get(field), str) and isinstance(document.get("db"), str)
            ),
            key=lambda document: (document[field], document["db"]),
        )


def _field(document: bytes, name: str) -> Any:
    """Return the value of a field, or None if absent."""
    value = get_field(document, name)
    return None if value is None else to_python(value)
