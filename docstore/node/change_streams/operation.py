"""One operation of an oplog entry, for change streams."""

from __future__ import annotations

from functools import lru_cache

from docstore.namespace import split_namespace

INTERNAL = ("admin", "config", "local")
"""Databases that change streams never report."""
SHARDED = "shardCollection"


_OF_DOCUMENTS = frozenset(("insert", "update", "replace", "delete"))


_PLAIN = frozenset(("insert", "update", "replace", "delete", "drop", "rename", "dropDatabase"))
"""Kinds that streams report without `showExpandedEvents`."""


class Operation:
    """An operation on a document or on the catalog.

    `kind` is its event type; `db`, `collection` its namespace; `target` the new namespace of a rename. `index` is its
    position in its entry or transaction; `wall`, `session` are encoded fields.
    """

    __slots__ = (
        "collection", "db", "index", "kind", "namespace", "o", "o2", "of_view", "session", "target",
        "timestamp", "uuid", "wall",
    )  # fmt: skip

    def __init__(
        self, kind: str, namespace: str, o: bytes, o2: bytes | None, uuid: bytes | None, entry: EntryFields, index: int
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.db, self.collection = _names(namespace)
        self.target = ""
        self.of_view = False
        self.o = o
        self.o2 = o2
        self.uuid = uuid
        self.index = index
        self.timestamp = entry.timestamp
        self.wall = entry.wall
        self.session = entry.session

    @property
    def of_document(self) -> bool:
        """True if it inserts, changes or deletes a document other than a view's definition."""
        return self.kind in _OF_DOCUMENTS and not self.of_view

    @property
    def is_plain(self) -> bool:
        return self.kind in _PLAIN and not self.of_view

    @property
    def is_internal(self) -> bool:
        """True if the namespace is internal to the server."""
        return self.collection.startswith("system.") or self.db in INTERNAL

    @property
    def target_db(self) -> str:
        """The new database of a renamed collection."""
        return self.target.partition(".")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the scopes that contain it."""
        if self.target:
            return self.namespace, self.db, "", self.target, self.target_db
        return self.namespace, self.db, ""


@lru_cache(maxsize=256)
def _names(namespace: str) -> tuple[str, str]:
    return split_namespace(namespace)


class EntryFields:
    """The fields that all operations of an oplog entry share: timestamp, wall clock and session."""

    __slots__ = ("session", "timestamp", "wall")

    def __init__(self, timestamp: int, wall: bytes, session: bytes = b"") -> None:
        self.timestamp = timestamp
        self.wall = b"\x09wallTime\0" + wall
        self.session = session
