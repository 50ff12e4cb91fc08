"""The donor's requests to the recipient's primary. The `recv_chunk_*` modules of `mongod.migration.commands` serve
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import bson
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import append_fields, array_from, document_to_python
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.net import ReplicaSetClient
from docstore.sharding.donor import RecipientPrepares
from docstore.sharding.migration import AnyMigration, DatabaseMigration, Decision, Migration, migration_fields
from docstore.sharding.recipient_messages import CollectionChanges, CollectionDefinition
from docstore.sharding.recipient_state import State
from mongod.migration.limits import BATCH_BYTES, CHANGES_AT_ONCE, COLLECTIONS_AT_ONCE
from mongod.migration.session_history import Statement

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

REQUEST_SECONDS = 60.0


class RecipientLink:
    """One migration's requests. Errors of all: CommandError of the reply, NetworkError.

    Batches are numbered; one is never sent twice, so a failed one ends the migration.
    """

    def __init__(self, shard: ShardParts, migration: AnyMigration, client: ReplicaSetClient | None) -> None:
        """`client` None: the recipient is looked up when it is first needed."""
        self._shard = shard
        self._migration = migration
        self._client = client
        self._batches = 0

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def start(self, migration: Migration, collection: Collection, mark: Collection | None) -> RecipientPrepares:
        """Announce the migration of a chunk. `mark`: the keyspace's, for a column family."""
        indexes = [RawBSONDocument(index.spec.raw) for index in collection.indexes.values() if not index.is_id]
        command = {"_recvChunkStart": 1, **migration_fields(migration), "indexes": indexes}
        command |= {"options": RawBSONDocument(collection.options.raw)}
        if mark is not None:
            command |= {"keyspace": RawBSONDocument(mark.options.raw)}
        return _progress(await self._ask(command, retry=True))

    async def start_database(self, migration: DatabaseMigration) -> RecipientPrepares:
        """Announce the migration of a database."""
        command = {"_recvDatabaseStart": 1, "migration": migration.document()}
        return _progress(await self._ask(command, retry=True))

    async def status(self) -> RecipientPrepares:
        """Return the recipient's progress once it is ready or has ended, or after a second."""
        status = {"_recvChunkStatus": 1, "migrationId": self._migration.id, "waitMillis": 1000}
        return _progress(await self._ask(status, retry=True))

    async def push_collections(self, definitions: list[CollectionDefinition]) -> None:
        """Announce collections of a database, before their documents are sent."""
        for at in range(0, len(definitions), COLLECTIONS_AT_ONCE):
            listed = [
                {
                    "ns": definition.namespace, "uuid": definition.uuid, "options": RawBSONDocument(definition.options),
                    "indexes": [RawBSONDocument(raw) for raw in definition.indexes],
                }
                for definition in definitions[at : at + COLLECTIONS_AT_ONCE]
            ]  # fmt: skip
            await self._ask(self._numbered("_recvDatabaseCollections") | {"collections": listed})

    async def push_clone(self, namespace: str, documents: list[bytes]) -> None:
        """Send documents that were not sent before."""
        command = self._numbered("_recvChunkDocuments") | {"clone": True, "ns": namespace}
        await self._ask(bson.encode(command), sequences={"documents": documents})

    async def push_changes(self, changes: CollectionChanges, *, majority: bool) -> None:
        """Send new versions of documents and the `_id`s of removed ones. `majority`: wait until a majority has
        everything so far.
        """
        command = self._numbered("_recvChunkDocuments") | {"majority": majority, "ns": changes.namespace}
        raw = bson.encode(command)
        if changes.removed_ids:
            raw = append_fields(raw, b"\x04deleted\0" + array_from(changes.removed_ids))
        await self._ask(raw, sequences={"documents": list(changes.documents)} if changes.documents else None)

    async def push_database_changes(self, changes: Sequence[CollectionChanges], *, majority: bool) -> None:
        """Send changes of several collections of a database; otherwise like `push_changes`."""
        listed = []
        for change in changes:
            head = bson.encode({"ns": change.namespace, "documents": len(change.documents)})
            listed.append(append_fields(head, b"\x04deleted\0" + array_from(change.removed_ids)))
        sequences = {"collections": listed, "documents": [raw for change in changes for raw in change.documents]}
        command = self._numbered("_recvDatabaseChanges") | {"majority": majority}
        await self._ask(command, sequences={name: some for name, some in sequences.items() if some} or None)

    async def push_statements(self, statements: Iterable[Statement]) -> None:
        """Send retryable writes, in as many batches as needed."""
        batch: list[bytes] = []
        size = 0
        for statement in statements:
            batch.append(bson.encode(statement.fields()))
            size += len(batch[-1])
            if len(batch) == CHANGES_AT_ONCE or size > BATCH_BYTES:
                await self._push_statements(batch)
                batch, size = [], 0
        if batch:
            await self._push_statements(batch)

    async def _push_statements(self, batch: list[bytes]) -> None:
        await self._ask(bson.encode(self._numbered("_recvChunkStatements")), sequences={"statements": batch})

    async def commit(self) -> None:
        """Return when a majority has everything that was pushed."""
        command = {"_recvChunkCommit": 1, "migrationId": self._migration.id, "last": Int64(self._batches)}
        await self._ask(command, retry=True)

    async def resolve(self, decision: Decision) -> None:
        """Send the decision. Does nothing for a recipient that was removed from the cluster."""
        command = {
            "_recvChunkResolve": 1,
            "migrationId": self._migration.id,
            "ns": self._migration.namespace,
            "decision": decision.value,
        }
        try:
            await self._ask(command, retry=True)
        except CommandError as error:
            if error.code != Code.ShardNotFound:
                raise

    def _numbered(self, name: str) -> dict[str, Any]:
        self._batches += 1
        return {name: 1, "migrationId": self._migration.id, "number": Int64(self._batches)}

    async def _ask(
        self,
        command: Mapping[str, Any] | bytes,
        *,
        retry: bool = False,
        sequences: dict[str, list[bytes]] | None = None,
    ) -> bytes:
        if self._client is None:
            self._client = await self._shard.client_of(self._migration.recipient)
        return await self._client.command("admin", command, retry=retry, sequences=sequences, timeout=REQUEST_SECONDS)


def _progress(reply: bytes) -> RecipientPrepares:
    body = document_to_python(reply)
    return RecipientPrepares(State[body["state"].upper()], body.get("reason", ""))
