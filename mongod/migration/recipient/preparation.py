"""Preparation of the recipient: the owner of the incoming data, collections with the donor's uuids, their indexes, an
empty range.

Change streams see no events: for them the collection has existed all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from docstore.bson import EMPTY_DOCUMENT, Value, from_python, get_field
from docstore.bson.walk import OBJECT
from docstore.collection.catalog.modification import modify_options
from docstore.collection.catalog.options import CollectionOptions, parse_options
from docstore.collection.collection import Collection
from docstore.collection.index.spec import IndexSpec, parse_index_spec
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.log import component
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.node import DataNode
from docstore.node.slices import finish_work
from docstore.sharding.migration import DATABASE_DELETIONS, DatabaseDeletion, DatabaseMigration, Migration
from docstore.sharding.recipient_messages import (
    CollectionDefinition,
    DatabaseRead,
    Definition,
    ReadRouting,
    RoutingRead,
)
from mongod.migration.donor.clone_source import collection_of
from mongod.migration.range_cloner import registered_cloner
from mongod.migration.range_operations import RangeRemoval

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

LOG = component("MIGRATE")
_SWEEP_BATCH = 256


async def read_routing(shard: ShardParts, work: ReadRouting) -> RoutingRead | DatabaseRead:
    """Read the routing of the incoming data and return the relevant parts."""
    migration = work.migration
    if isinstance(migration, DatabaseMigration):
        return await _read_database(shard, work, migration)
    if work.anew:
        shard.shard_filter.forget(migration.namespace)
    metadata = await shard.shard_filter.refresh(migration.namespace)
    routing, collection = metadata.routing, metadata.collection
    if collection is None:
        return RoutingRead(work, None, routing.primary, False)
    same = collection.epoch == migration.epoch
    owned = same and collection.chunks.owns_any(migration.recipient, migration.range)
    return RoutingRead(work, collection.epoch, routing.primary, owned)


async def _read_database(shard: ShardParts, work: ReadRouting, migration: DatabaseMigration) -> DatabaseRead:
    about = f"{migration.namespace}.$cmd"
    if work.anew:
        shard.shard_filter.forget(about)
    routing = (await shard.shard_filter.refresh(about)).routing
    hold = shard.shard_filter.holds.conflicting(migration.namespace)
    is_held = hold is not None and hold.operation == migration.operation
    return DatabaseRead(work, routing.database, routing.primary, is_held)


def make_collection(shard: ShardParts, migration: Migration, definition: Definition) -> None:
    """InvalidUUID where another collection of the name has something in it; ConflictingOperationInProgress while it is
    held, perhaps to be dropped.
    """
    node = shard.node
    node.replication.check_write()
    conflict = shard.shard_filter.holds.conflict(migration.namespace)
    if conflict is not None:
        raise conflict
    collection = node.store.collection(migration.namespace)
    if collection is not None and collection.uuid == migration.uuid.as_uuid():
        return
    if collection is not None and collection.count:
        raise CommandError(Code.InvalidUUID, f"{migration.namespace} is another collection here")
    _make_anew(node, migration, definition.options)


def _make_anew(node: DataNode, migration: Migration, options: bytes) -> None:
    """Create the collection; drop any other of the name first."""
    store = node.store
    if store.collection(migration.namespace) is not None:
        with store.unit(from_migrate=True) as unit:
            store.drop_collection(unit, migration.namespace)
            unit.commit()
    with store.unit(from_migrate=True) as unit:
        store.create_collection(unit, migration.namespace, parse_options(options), uuid=migration.uuid.as_uuid())
        unit.commit()


async def hold_collections(
    shard: ShardParts, migration: DatabaseMigration, definitions: Sequence[CollectionDefinition]
) -> None:
    """Create the collections of an incoming database, and the definitions of its sharded ones.

    First a durable record says to drop them if the migration aborts. NamespaceExists if another collection of a name
    is not empty.
    """
    node = shard.node
    node.replication.check_write()
    coming = [candidate for candidate in definitions if candidate.namespace not in migration.sharded]
    for definition in coming:
        collection = node.store.collection(definition.namespace)
        if collection is not None and collection.count and collection.uuid != definition.uuid.as_uuid():
            raise CommandError(Code.NamespaceExists, f"{shard.name} has another collection {definition.namespace}")
    await _persist_deletion(shard, migration, coming)
    for definition in definitions:
        node.replication.check_write()
        part = migration.part(definition.namespace, definition.uuid)
        collection = node.store.collection(definition.namespace)
        if collection is None or definition.namespace not in migration.sharded:
            _make_anew(node, part, definition.options)
        await build_indexes(shard, part, Definition(definition.options, definition.indexes))
        await node.pause()


async def _persist_deletion(
    shard: ShardParts, migration: DatabaseMigration, coming: Sequence[CollectionDefinition]
) -> None:
    record = shard.records.deletion(migration.id)
    uuids = record.uuids if isinstance(record, DatabaseDeletion) else frozenset()
    all_uuids = uuids.union(bytes(definition.uuid) for definition in coming)
    if all_uuids == uuids:
        return
    deletion = DatabaseDeletion(
        id=migration.id,
        namespace=migration.namespace,
        uuids=all_uuids,
        donor=migration.donor,
        pending=True,
        delayed=False,
    ).written_at(int(shard.node.wall_clock()))
    await shard.records.committed(shard.records.write((DATABASE_DELETIONS, deletion.document())))


def hold_column_family(node: DataNode, migration: Migration, definition: Definition) -> None:
    """Errors: those of `RangeCloner.hold`."""
    node.replication.check_write()
    assert definition.keyspace is not None, "a column family is in a keyspace"
    options, keyspace = parse_options(definition.options), parse_options(definition.keyspace)
    registered_cloner(node).hold(migration.namespace, migration.uuid.as_uuid(), options, keyspace)


async def build_indexes(shard: ShardParts, migration: Migration, definition: Definition) -> None:
    """Build the donor's indexes.

    A shard that owns nothing of the collection does not take part when indexes change. It therefore first drops all
    others and takes over the donor's options: an old TTL index would delete incoming documents.
    """
    node, collection = shard.node, collection_of(shard.node, migration)
    specs = [parse_index_spec(raw) for raw in definition.indexes]
    routing = (await shard.shard_filter.refresh(migration.namespace)).collection
    if routing is None or shard.name not in routing.chunks.shards:
        node.replication.check_write()
        follow_definition(node, collection, specs, parse_options(definition.options))
    missing = [
        spec for spec in specs if not any(index.spec.holds_the_same(spec) for index in collection.indexes.values())
    ]
    if not missing:
        return
    if not collection.count:
        for spec in missing:
            with node.store.unit(from_migrate=True) as unit:
                node.store.create_index(unit, collection, spec)
                unit.commit()
        return
    build = node.store.build_index(collection, missing)
    try:
        building = Repeated(lambda _owned, until: build.step(until))
        await finish_work(node, write_in_slices(node, migration.namespace, building))
        with node.store.unit(from_migrate=True) as unit:
            build.finish(unit)
            unit.commit()
    except BaseException:
        build.abort()
        raise


def follow_definition(
    node: DataNode, collection: Collection, specs: list[IndexSpec], options: CollectionOptions
) -> None:
    """Drop indexes that differ from those of `specs`, and take over the options that can change."""
    obsolete_names = [
        index.name
        for index in collection.indexes.values()
        if not index.is_id and not any(_same(index.spec, spec) for spec in specs)
    ]
    validation: dict[str, Value] = {
        "validator": (OBJECT, EMPTY_DOCUMENT),
        "validationLevel": from_python(options.level),
        "validationAction": from_python(options.action),
    }
    validator = get_field(options.raw, "validator")
    if validator is not None:
        validation["validator"] = validator
    validation["changeStreamPreAndPostImages"] = from_python({"enabled": options.pre_images})
    differ = collection.options.family is None and _validation(collection.options) != _validation(options)
    if not obsolete_names and not differ:
        return
    with node.store.unit(from_migrate=True) as unit:
        for name in obsolete_names:
            node.store.drop_index(unit, collection, name)
        if differ:
            modify_options(node.store.catalog, unit, collection, validation)
        unit.commit()
    LOG.info("Definition follows the donor's", ns=collection.ns, dropped=obsolete_names)


def _validation(options: CollectionOptions) -> tuple[Value | None, str, str, bool]:
    return get_field(options.raw, "validator"), options.level, options.action, options.pre_images


def _same(spec: IndexSpec, other: IndexSpec) -> bool:
    alike = spec.holds_the_same(other) and spec.name == other.name and spec.other_options == other.other_options
    return alike and (spec.expire_after, spec.hidden) == (other.expire_after, other.hidden)


async def sweep(node: DataNode, migration: Migration) -> None:
    """Delete leftovers of an earlier migration in the range."""
    swept = 0
    removal = RangeRemoval(node, migration.key, migration.range)

    def delete(_owned: Predicate | None, _until: float) -> bool:
        nonlocal swept
        count = removal.step(collection_of(node, migration), _SWEEP_BATCH)
        swept += count
        return not count

    await finish_work(node, write_in_slices(node, migration.namespace, Repeated(delete)))
    if swept:
        LOG.info("Leftovers deleted", ns=migration.namespace, range=str(migration.range), documents=swept)
