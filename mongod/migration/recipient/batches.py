"""Storing a donor's batches, in slices. Nothing is written once this member is not primary; a cancelled task stops
between two slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from docstore.bson import Value
from docstore.collection.collection import Collection
from docstore.collection.store import mode_of
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.node.entry import each_committed, write_in_slices
from docstore.node.node import DataNode
from docstore.node.slices import finish_work
from docstore.sharding.migration import Migration
from docstore.sharding.recipient_messages import ReplaceDocuments
from docstore.sharding.version import ZERO_EPOCH
from mongod.migration import session_history
from mongod.migration.donor.clone_source import collection_of
from mongod.migration.ranges import id_of, in_range

_INSERT_BATCH = 256
_INSERT_BYTES = 256 * 1024
_STATEMENTS_AT_ONCE = 32
_MERGED_BYTES = 64 * 1024
"""The maximal bytes of column family entries that are applied in one unit."""


async def insert(node: DataNode, migration: Migration, documents: Sequence[bytes]) -> None:
    """Insert the documents. Errors: DuplicateKey."""
    await _store(node, migration.namespace, _insert(node, migration, documents))


async def replace(node: DataNode, replacements: Sequence[ReplaceDocuments]) -> None:
    """Replace documents, collection by collection. Each first removes the old versions, so that values of unique
    indexes can move between documents.
    """
    for replacement in replacements:
        migration = replacement.migration
        await _store(
            node, migration.namespace, _replace(node, migration, replacement.documents, replacement.removed_ids)
        )


async def merge(node: DataNode, migration: Migration, entries: Sequence[bytes]) -> None:
    """Apply the entries of a column family in their order."""
    await _store(node, migration.namespace, _merge(node, migration, entries))


async def remember(node: DataNode, statements: Sequence[bytes]) -> None:
    """Store the retryable writes that the donor has executed."""
    await _store(node, session_history.STATEMENTS, _remember(node, statements))


async def _store(node: DataNode, namespace: str, units: Iterator[None]) -> None:
    await finish_work(node, write_in_slices(node, namespace, each_committed(node, units)))


def _remember(node: DataNode, statements: Sequence[bytes]) -> Iterator[None]:
    parsed = map(session_history.Statement.from_raw, statements)
    for _, of_one in groupby(parsed, key=lambda each: (each.lsid, each.txn_number)):
        while some := list(islice(of_one, _STATEMENTS_AT_ONCE)):
            session_history.remember(node.store, some)
            yield


def _insert(node: DataNode, migration: Migration, documents: Sequence[bytes]) -> Iterator[None]:
    """Units of documents that have one oplog entry; one that is large, or alone, has an entry of its own."""
    at = 0
    while at < len(documents):
        collection = collection_of(node, migration)
        end, size = at + 1, len(documents[at])
        while end < len(documents) and end - at < _INSERT_BATCH and size + len(documents[end]) <= _INSERT_BYTES:
            size += len(documents[end])
            end += 1
        with node.store.unit(from_migrate=True) as unit:
            if end - at == 1 or collection.options.capped:
                for document in documents[at:end]:
                    unit.insert(collection, document)
            else:
                unit.insert_all(collection, documents[at:end])
            unit.commit()
        at = end
        yield


def _replace(
    node: DataNode, migration: Migration, documents: Sequence[bytes], removed_ids: Sequence[Value]
) -> Iterator[None]:
    yield from _remove_all(node, migration, removed_ids, keep_outside=True)
    if migration.epoch == ZERO_EPOCH:
        try:
            yield from _replace_in_place(node, migration, documents)
            return
        except CommandError as error:
            if error.code != Code.DuplicateKey:
                raise
            # Values of a unique index have moved between documents, of which the others are still as they were.
    yield from _remove_all(node, migration, [id_of(raw) for raw in documents], keep_outside=False)
    yield from _insert(node, migration, documents)


def _remove_all(
    node: DataNode, migration: Migration, identities: Sequence[Value], *, keep_outside: bool
) -> Iterator[None]:
    for at in range(0, len(identities), _INSERT_BATCH):
        collection = collection_of(node, migration)
        with node.store.unit(from_migrate=True) as unit:
            for identity in identities[at : at + _INSERT_BATCH]:
                _remove(unit, migration, collection, identity, keep_outside=keep_outside)
            unit.commit()
        yield


def _replace_in_place(node: DataNode, migration: Migration, documents: Sequence[bytes]) -> Iterator[None]:
    """Replace documents in place: a collection that moves as a whole keeps its order, on which capped ones rely.
    Errors: DuplicateKey.
    """
    for at in range(0, len(documents), _INSERT_BATCH):
        collection = collection_of(node, migration)
        with node.store.unit(from_migrate=True) as unit:
            for document in documents[at : at + _INSERT_BATCH]:
                record = collection.by_id(unit, id_of(document))
                if record is None:
                    unit.insert(collection, document)
                elif record[1] != document:
                    unit.replace(collection, *record, document)
            unit.commit()
        yield


def _merge(node: DataNode, migration: Migration, entries: Sequence[bytes]) -> Iterator[None]:
    at = 0
    while at < len(entries):
        collection = collection_of(node, migration)
        mode = mode_of(node.store, collection)
        size = 0
        with node.store.unit(from_migrate=True) as unit:
            while at < len(entries) and size < _MERGED_BYTES:
                mode.apply(unit, collection, entries[at])
                size += len(entries[at])
                at += 1
            unit.commit()
        yield


def _remove(
    unit: WriteUnitOfWork, migration: Migration, collection: Collection, identity: Value, *, keep_outside: bool
) -> None:
    """Remove the document with that `_id` if it is in the range. One outside of it is another document: it stays, or
    (when a document with its `_id` is to be stored) refuses the migration."""
    record = collection.by_id(unit, identity)
    if record is None:
        return
    record_id, raw = record
    if in_range(migration.key, migration.range, raw):
        unit.remove(collection, record_id, raw)
    elif not keep_outside:
        raise CommandError(
            Code.DuplicateKey, f"this shard has another document with the same _id in {migration.namespace}"
        )
