"""Making the recipient ready: who owns the range, the collection under the donor's uuid, its indexes, a clean range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.collection.catalog.options import parse_options
from docstore.collection.index.spec import parse_index_spec
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.log import component
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.node import DataNode
from docstore.node.slices import finish_work
from docstore.sharding.migration import Migration
from docstore.sharding.recipient_messages import Definition, ReadRouting, RoutingRead
from mongod.migration.donor.clone_source import collection_of
from mongod.migration.range_cloner import registered_cloner
from mongod.migration.ranges import Removal

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

LOG = component("MIGRATE")
_SWEEP_BATCH = 256


async def read_routing(shard: Shard, work: ReadRouting) -> RoutingRead:
    """The routing of the migration's collection, in what matters of it."""
    migration = work.migration
    if work.anew:
        shard.shard_filter.forget(migration.namespace)
    routing = (await shard.shard_filter.refresh(migration.namespace)).routing
    collection = routing.collection
    if collection is None:
        return RoutingRead(work, None, routing.primary, False)
    same = collection.epoch == migration.epoch
    owned = same and collection.chunks.owns_any(migration.recipient, migration.range)
    return RoutingRead(work, collection.epoch, routing.primary, owned)


def make_collection(node: DataNode, migration: Migration, definition: Definition) -> None:
    """InvalidUUID where another collection of the name has something in it."""
    node.replication.check_write()
    store, uuid = node.store, migration.uuid.as_uuid()
    collection = store.collection(migration.namespace)
    if collection is not None and collection.uuid == uuid:
        return
    if collection is not None:
        if collection.count:
            raise CommandError(Code.InvalidUUID, f"{migration.namespace} is another collection here")
        with store.unit() as unit:
            store.drop_collection(unit, migration.namespace)
            unit.commit()
    with store.unit() as unit:
        store.create_collection(unit, migration.namespace, parse_options(definition.options), uuid=uuid)
        unit.commit()


def hold_column_family(node: DataNode, migration: Migration, definition: Definition) -> None:
    """Errors: those of `RangeCloner.hold`."""
    node.replication.check_write()
    assert definition.keyspace is not None, "a column family is in a keyspace"
    options, keyspace = parse_options(definition.options), parse_options(definition.keyspace)
    registered_cloner(node).hold(migration.namespace, migration.uuid.as_uuid(), options, keyspace)


async def build_indexes(node: DataNode, migration: Migration, definition: Definition) -> None:
    """Those of the donor's that are missing here."""
    collection = collection_of(node, migration)
    missing = [
        spec
        for spec in map(parse_index_spec, definition.indexes)
        if not any(index.spec.holds_the_same(spec) for index in collection.indexes.values())
    ]
    if not missing:
        return
    if not collection.count:
        for spec in missing:
            with node.store.unit() as unit:
                node.store.create_index(unit, collection, spec)
                unit.commit()
        return
    build = node.store.build_index(collection, missing)
    try:
        building = Repeated(lambda _owned, until: build.step(until))
        await finish_work(node, write_in_slices(node, migration.namespace, building))
        with node.store.unit() as unit:
            build.finish(unit)
            unit.commit()
    except BaseException:
        build.abort()
        raise


async def sweep(node: DataNode, migration: Migration) -> None:
    """Delete what an earlier time has left in the range."""
    swept = 0
    removal = Removal(node, migration.key, migration.range)

    def delete(_owned: Predicate | None, _until: float) -> bool:
        nonlocal swept
        count = removal.step(collection_of(node, migration), _SWEEP_BATCH)
        swept += count
        return not count

    await finish_work(node, write_in_slices(node, migration.namespace, Repeated(delete)))
    if swept:
        LOG.info("Leftovers deleted", ns=migration.namespace, range=str(migration.range), documents=swept)
