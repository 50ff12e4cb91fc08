"""The unsharded collections that a donor sends, each whole, when a database gets another primary shard.

Documents are sent in storage order, which is the order of capped collections. Invariants:

- the recipient hears of a collection before it gets a document of it;
- a collection created meanwhile is sent along;
- no collection of which the recipient has heard changes: changes of definitions wait
  (`docstore.sharding.ddl.operation.Blocks.CHANGES`), or the migration is aborted.
"""

from __future__ import annotations

from collections.abc import Callable

from bson.binary import Binary

from docstore.bson import Value, get_field
from docstore.collection.changes import Commit
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.namespace import replicates, split_namespace
from docstore.node.node import DataNode
from docstore.node.pipeline.map_reduce import is_temporary
from docstore.sharding.migration import DatabaseMigration
from docstore.sharding.recipient_messages import CollectionChanges, CollectionDefinition
from mongod.migration.donor.capture import MAX_BYTES
from mongod.migration.donor.clone_source import CloneSource
from mongod.migration.limits import BATCH_BYTES, CHANGES_AT_ONCE
from mongod.migration.ranges import id_of


def unsharded_collections(store: Store, migration: DatabaseMigration) -> list[Collection]:
    """The collections that move, by name; temporary ones of outputs under way do not: those end with the move."""
    collections = [
        collection
        for collection in store.catalog.in_database(migration.namespace)
        if migration.concerns(collection.ns) and _moves(collection)
    ]
    return sorted(collections, key=lambda collection: collection.ns)


def _moves(collection: Collection) -> bool:
    name = split_namespace(collection.ns)[1]
    return replicates(collection.ns) and get_field(collection.options.raw, "temp") is None and not is_temporary(name)


class DatabaseCapture:
    """The `_id`s of documents that change, by collection, in the order in which they first did.

    `overflowed`: more than `max_bytes` had to be kept; give up then.
    """

    def __init__(self, store: Store, migration: DatabaseMigration, *, max_bytes: int = MAX_BYTES) -> None:
        self._store = store
        self._migration = migration
        self._ids: dict[str, dict[bytes, Value]] = {}
        self._bytes = 0
        self._max_bytes = max_bytes
        self.overflowed = False
        self._unsubscribe: Callable[[], None] | None = store.subscribe(self._committed)

    def __len__(self) -> int:
        return sum(map(len, self._ids.values()))

    def stop(self) -> None:
        """Stop listening and discard the capture."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._ids.clear()

    def namespace(self) -> str | None:
        """A collection of which there are `_id`s."""
        return next(iter(self._ids), None)

    def take(self, namespace: str) -> Value | None:
        """Remove and return the collection's oldest captured `_id`; None if there is none."""
        ids = self._ids.get(namespace)
        if ids is None:
            return None
        key = next(iter(ids))
        value = ids.pop(key)
        self._bytes -= len(key) + len(value[1])
        if not ids:
            del self._ids[namespace]
        return value

    def _committed(self, commit: Commit) -> None:
        for change in commit.changes:
            document = change.before if change.after is None else change.after
            if change.op in "iud" and document is not None and self._migration.concerns(change.ns):
                collection = self._store.collection(change.ns)
                if collection is None or _moves(collection):
                    self._add(change.ns, id_of(document))

    def _add(self, namespace: str, value: Value) -> None:
        ids, key = self._ids.setdefault(namespace, {}), encode_key(value)
        if self.overflowed or key in ids:
            return
        ids[key] = value
        self._bytes += len(key) + len(value[1])
        if self._bytes > self._max_bytes:
            self.overflowed = True


class DatabaseSource(CloneSource):
    """The clone source of a database; see the module."""

    def __init__(self, node: DataNode, migration: DatabaseMigration) -> None:
        self._migration = migration
        self._capture = DatabaseCapture(node.store, migration)
        super().__init__(node, migration, self._capture)
        self._collections = iter(unsharded_collections(node.store, migration))
        self._told: dict[str, CollectionDefinition] = {}
        self._catalog_version = -1
        self._next_collection()

    def _next_collection(self) -> bool:
        """See the base."""
        collection = next(self._collections, None)
        if collection is None:
            return False
        self._namespace, self._cursor = collection.ns, iter(collection.documents(self._snapshot))
        return True

    def new_definitions(self) -> list[CollectionDefinition]:
        """See the base. Includes the definitions of sharded collections, which a primary shard shows."""
        catalog = self._node.store.catalog
        if catalog.version == self._catalog_version:
            return []
        sharded = [self._node.store.collection(namespace) for namespace in sorted(self._migration.sharded)]
        collections = unsharded_collections(self._node.store, self._migration) + [
            candidate for candidate in sharded if candidate is not None
        ]
        now = {collection.ns: self._definition(collection) for collection in collections}
        for namespace, definition in self._told.items():
            if now.get(namespace) != definition:
                text = f"the definition of {namespace} has changed while its database was on its way"
                raise CommandError(Code.ConflictingOperationInProgress, text)
        new = [definition for namespace, definition in now.items() if namespace not in self._told]
        self._told, self._catalog_version = now, catalog.version
        return new

    def _definition(self, collection: Collection) -> CollectionDefinition:
        return CollectionDefinition(
            namespace=collection.ns,
            uuid=Binary.from_uuid(collection.uuid),
            options=bytes(collection.options.raw),
            indexes=tuple(bytes(index.spec.raw) for index in collection.indexes.values() if not index.is_id),
        )

    def take_changes(self) -> list[CollectionChanges]:
        """See the base. One call takes changes of several collections: a round takes no longer for many collections."""
        self._check()
        changes: list[CollectionChanges] = []
        count = size = 0
        while size < BATCH_BYTES and count < CHANGES_AT_ONCE and (namespace := self._capture.namespace()) is not None:
            collection = self._node.store.collection(namespace)
            moves = collection is not None and _moves(collection)
            present: list[bytes] = []
            deleted_ids: list[Value] = []
            while size < BATCH_BYTES and count < CHANGES_AT_ONCE:
                identity = self._capture.take(namespace)
                if identity is None:
                    break
                count += 1
                record = None if collection is None else collection.by_id(self._node.engine, identity)
                if record is None:
                    deleted_ids.append(identity)
                else:
                    present.append(record[1])
                    size += len(record[1])
            if moves:
                changes.append(CollectionChanges(namespace, present, deleted_ids))
        return changes
