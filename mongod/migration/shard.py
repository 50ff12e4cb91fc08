"""A shard's parts beside those of a data node: its identity, shard filter, migrations and range deletions.

A shard takes part in one migration at a time, as donor or recipient. The rest of a donation after its decision
(telling the recipient, forgetting) runs beside the next migration.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable

from bson.binary import Binary

from docstore.collection.changes import Commit
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import Pool, ReplicaSetClient
from docstore.node.node import DataNode
from docstore.sharding.chunk import Chunk
from docstore.sharding.ddl.operation import Operation, conflict
from docstore.sharding.key import KeyRange
from docstore.sharding.migration import AnyMigration, DatabaseMigration, Migration, conflict_with
from docstore.sharding.routing import CollectionRouting
from docstore.sharding.version import DatabaseVersion
from mongod.drivers import Drivers
from mongod.migration.config_servers import ConfigServers
from mongod.migration.deletions import RangeDeleter
from mongod.migration.donor.driver import DonorDriver
from mongod.migration.identity import SYSTEM_VERSION, ShardIdentity, stored_identity
from mongod.migration.recipient.driver import RecipientDriver
from mongod.migration.records import MigrationRecords
from mongod.migration.shard_filter import RangeShardFilter
from mongod.migration.tunables import Tunables
from mongod.migration.upkeep.cluster_settings import ClusterSettingsWatch
from mongod.migration.upkeep.database_notes import DatabaseNotes
from mongod.migration.upkeep.removal import RemovalWatch

LOG = component("SHARDING")
_LOOK_SECONDS = 0.5
_STARTING_SECONDS = 0.01


class Shard:
    """Composed by a data node that was started with --shardsvr. Its `shard_filter` is the node's."""

    def __init__(self, node: DataNode, pool: Pool, tunables: Tunables) -> None:
        self.node = node
        self.tunables = tunables
        self.records = MigrationRecords(node)
        self.shard_filter = RangeShardFilter(node, pool, self)
        self.shard_filter.on_term = self._new_term
        self.on_term: list[Callable[[], None]] = []
        """Called when this member is primary anew, after the migrations have been taken up."""
        self.deleter = RangeDeleter(node, self.records, self.shard_filter, tunables)
        self.recipient = RecipientDriver(self)
        self.identity: ShardIdentity | None = None
        self.making_families = asyncio.Lock()
        self.pool = pool
        self._config: ConfigServers | None = None
        self._donations: Drivers[bytes, DonorDriver] = Drivers("donor")
        self._closing: set[asyncio.Future[None]] = set()
        self._starting = False
        self._watch: asyncio.Task[None] | None = None
        self._removal = RemovalWatch(self, self.recipient)
        self._database_notes = DatabaseNotes(self)
        self._cluster_settings = ClusterSettingsWatch(self)
        self._unsubscribe = node.store.subscribe(self._committed)

    async def start(self) -> None:
        """Read the identity and begin to watch for elections of this member."""
        self.load_identity()
        await self.deleter.start()
        self._watch = asyncio.get_running_loop().create_task(self._watch_terms(), name="migrations")
        await self._removal.start()
        await self._database_notes.start()
        await self._cluster_settings.start()

    async def stop(self) -> None:
        """Stop all work; it resumes from the durable documents."""
        self._unsubscribe()
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        await self._donations.stop()
        await self._removal.stop()
        await self._database_notes.stop()
        await self._cluster_settings.stop()
        await self.recipient.stop()
        await self.deleter.stop()
        await self.shard_filter.stop()
        if self._config is not None:
            await self._config.close()

    # Identity

    def load_identity(self) -> None:
        """Read the identity from disk if there is one."""
        identity = stored_identity(self.node.store)
        if identity != self.identity:
            LOG.info("This shard's identity", name=identity and identity.name, config=identity and identity.config)
            self.identity = identity
            if self._config is not None:
                closing = asyncio.ensure_future(self._config.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            self._config = None if identity is None else ConfigServers(identity, self.pool)

    def config_servers(self) -> ConfigServers:
        """Return the config servers' client. Errors: NotYetInitialized before the shard was added to a cluster."""
        if self._config is None:
            raise CommandError(Code.NotYetInitialized, "this node has not been added to a cluster as a shard")
        return self._config

    @property
    def name(self) -> str:
        """The shard's name. NotYetInitialized before it has one."""
        if self.identity is None:
            raise CommandError(Code.NotYetInitialized, "this node has not been added to a cluster as a shard")
        return self.identity.name

    def _committed(self, commit: Commit) -> None:
        for change in commit.changes:
            if change.ns == SYSTEM_VERSION:
                self.load_identity()
                return

    async def client_of(self, shard: str) -> ReplicaSetClient:
        """A client of another shard; the caller closes it. ShardNotFound."""
        set_name, _, hosts = (await self.config_servers().shard_host(shard)).partition("/")
        return ReplicaSetClient(hosts.split(","), set_name, self.pool)

    # Terms

    async def _watch_terms(self) -> None:
        """Notice being primary even when no operation comes."""
        replication, waits = self.node.replication, self.shard_filter
        last_counter = -1
        while True:
            waits.settle_term()
            counter = int(replication.topology_version()["counter"])
            if counter != last_counter or waits.holds.any or waits.handovers.sections:
                # A rollback takes documents away unheard, or brings them back; an initial sync brings them.
                waits.holds.load()
                waits.handovers.load()
            last_counter = counter
            await replication.wait_topology_change(counter, _LOOK_SECONDS)

    def _new_term(self) -> None:
        """Enter a term as primary: end what an earlier term began here, resume what is on disk."""
        self.recipient.interrupt("the recipient's primary changed")
        self.load_identity()
        stored_drivers: list[tuple[bytes, DonorDriver]] = []
        for coordinator in self.records.coordinators():
            LOG.info("Migration resumed", ns=coordinator.migration.namespace, decision=str(coordinator.decision))
            donation = DonorDriver(self, coordinator.migration, None)
            donation.resume(coordinator.decision)
            stored_drivers.append((bytes(coordinator.migration.id), donation))
        self._donations.take_up(stored_drivers)
        self.deleter.changed()
        for take_up in self.on_term:
            take_up()

    # Donor

    async def donate(self, collection: CollectionRouting, chunk: Chunk, to: str) -> Migration:
        """Begin to give a chunk away. Errors: ConflictingOperationInProgress, ShardNotFound."""
        self.check_free(collection.namespace)
        migration = Migration(
            id=Binary(uuid.uuid4().bytes, 4),
            namespace=collection.namespace,
            uuid=collection.uuid,
            epoch=collection.epoch,
            key=collection.key,
            range=chunk.range,
            lastmod=chunk.lastmod,
            donor=self.name,
            recipient=to,
        )
        await self._donate(migration)
        return migration

    async def donate_database(self, operation: Operation, version: DatabaseVersion) -> None:
        """Give away the unsharded collections of the database that a DDL operation holds; return once that is
        committed.

        Errors: ConflictingOperationInProgress, ShardNotFound, those of the migration.
        """
        self.shard_filter.holds.standing(operation.id)
        self.check_free(operation.namespace, operation.id)
        facts = operation.facts
        migration = DatabaseMigration(
            id=Binary(uuid.uuid4().bytes, 4), operation=operation.id, namespace=operation.namespace, version=version,
            sharded=frozenset(facts["sharded"]), donor=self.name, recipient=facts["to"],
        )  # fmt: skip
        await self._donate(migration)
        await self.donated(migration)

    async def end_of_database(self, database: str) -> None:
        """Return when no migration of that database away from here is undecided."""
        while self._starting:
            await asyncio.sleep(_STARTING_SECONDS)
        running = [donation for donation, _ in self._donations if donation.migration.namespace == database]
        for donation in running:
            await asyncio.wait([donation.finished])

    async def _donate(self, migration: AnyMigration) -> None:
        self._starting = True
        try:
            client = await self.client_of(migration.recipient)
        finally:
            self._starting = False
        self._donations.begin(bytes(migration.id), DonorDriver(self, migration, client), resumed=False)

    def donating(self) -> list[AnyMigration]:
        """Return the undecided migrations away from here."""
        return [donation.migration for donation, _ in self._donations if not donation.decided]

    async def donated(self, migration: AnyMigration) -> Binary:
        """Wait for the commit and return the migration's id. Errors: OperationFailed when it is aborted."""
        donation = self._donations.get(bytes(migration.id))
        assert donation is not None, "it has begun, or was found, in this step"
        await asyncio.shield(donation.finished)
        return migration.id

    def donation_conflict(self, namespace: str, operation: Binary | None = None) -> CommandError | None:
        """Return ConflictingOperationInProgress while this shard donates or is about to, or while another operation
        holds the collection or database.
        """
        for migration in self.donating():
            return conflict_with(migration)
        if self._starting:
            return CommandError(Code.ConflictingOperationInProgress, "a migration begins here just now")
        return self.shard_filter.holds.conflict(namespace, operation)

    def conflict(self, namespace: str, operation: Binary | None = None) -> CommandError | None:
        """Return `donation_conflict`, or an error while this shard receives a migration."""
        error = self.donation_conflict(namespace, operation)
        if error is None and self.recipient.running is not None:
            error = conflict_with(self.recipient.running)
        return error

    def check_free(self, namespace: str, operation: Binary | None = None) -> None:
        """Raise the error of `conflict`, if any."""
        error = self.conflict(namespace, operation)
        if error is not None:
            raise error

    async def end_migrations(self, namespace: str) -> None:
        """Return when nothing of a namespace or database is being given away here. Aborts the migrations it can."""
        while self._starting:
            await asyncio.sleep(_STARTING_SECONDS)
        concerned = [
            donation
            for donation, _ in self._donations
            if not donation.decided and conflict(namespace, donation.migration.namespace)
        ]
        for donation in concerned:
            donation.give_up(f"{namespace} is held for a change of its definition")
            await asyncio.wait([donation.finished])

    def check_not_moving(self, namespace: str, bounds: KeyRange) -> None:
        """Raise ConflictingOperationInProgress while a chunk that overlaps is being moved away."""
        for migration in self.donating():
            if not isinstance(migration, Migration) or migration.namespace != namespace:
                continue
            if migration.range.overlaps(bounds):
                raise conflict_with(migration)


def shard_of(context: Context) -> Shard:
    """Return the shard that serves this request."""
    return context.services.parts[Shard]
