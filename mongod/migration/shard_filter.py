"""The shard filter: version check, ownership filter and critical sections of every operation on a shard.

Invariants:

- an operation that carries a shard version runs only under a routing in which this shard has that version. It sees
  only documents of ranges that the shard owns in that routing;
- an unsharded collection is served only by the primary shard of its database;
- a dropped incarnation is not served again, even if a routing still shows it: the durable documents of
  `docstore.sharding.ddl.incarnations` list those that are gone, or say that the config servers must confirm one;
- the shard's routing is never older than the last migration away from it. The durable document in
  `config.cache.collections` holds the least version; an older routing, read from a lagging config server, is not
  used;
- while a routing is known, the oplog identifies documents by the shard key that it shows;
- between BLOCK_WRITES and UNBLOCK of a migration no write to its scope is admitted, and no write admitted before is
  still uncommitted. Writes commit without awaiting after `check_version`; the unit that commits or prepares a
  transaction checks again;
- a secondary uses a routing only once it has applied everything that its primary had written when the routing was
  read. It also knows then to be committed what the primary knew to be. Migrated documents are thus present before
  they are read, in the newest snapshot and in that of the majority.

Routing is read from the config servers when it is first needed or was forgotten; requests wait for it meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from functools import partial
from typing import Protocol

from docstore.bson import document_to_python
from docstore.collection.changes import Commit
from docstore.collection.oplog.document_key import DocumentKey
from docstore.errors import Code, CommandError
from docstore.kernel.match.path_predicates import Call, Ranges
from docstore.kernel.match.predicate import Always, Predicate
from docstore.log import component
from docstore.namespace import split_namespace
from docstore.net import NetworkError, Pool
from docstore.node.node import DataNode
from docstore.node.shard_filter import Blocked, MustWait, Owned
from docstore.node.transactions.registry import transactions_of
from docstore.optime import OpTime
from docstore.replicaset.standalone import Standalone
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.ddl.incarnations import DATABASES, is_dropped
from docstore.sharding.key import ShardKey
from docstore.sharding.migration import COORDINATORS
from docstore.sharding.post_images import PostImages
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.targeting import KeyRanges
from docstore.sharding.version import Lastmod, ShardVersion, stale_config
from mongod.migration.config_servers import ConfigServers
from mongod.migration.critical_section import CriticalSection, CriticalSections
from mongod.migration.handovers import Handovers
from mongod.migration.holds import Holds, stored_document
from mongod.migration.identity import ShardIdentity
from mongod.migration.limits import MAX_PREDICATE_RANGES
from mongod.migration.records import ROUTING_SIGNALS, MigrationRecords
from mongod.migration.statements import Hold, RunningStatements
from mongod.migration.transaction_filter import TransactionShardFilter
from mongod.migration.upkeep.database_fence import Confirmations, stored_fence

LOG = component("SHARDING")
_ACCEPTED_VERSIONS = 16
_CATCH_UP_SECONDS = 10.0
_LAG_SECONDS = 0.05
_LAG_ATTEMPTS = 200


class Membership(Protocol):
    """The node's place in a cluster, as the filter asks for it."""

    @property
    def identity(self) -> ShardIdentity | None:
        """Return the identity; None before the node was added to a cluster."""

    def config_servers(self) -> ConfigServers:
        """Errors: NotYetInitialized."""


class FilteringMetadata:
    """The routing of one namespace as this shard uses it. `accepted`: encoded versions that were found current.
    `foreign`: the collection is unsharded and its database has another primary shard or none; or it has been dropped
    here.
    """

    def __init__(self, routing: Routing, shard: str, *, dropped: bool = False) -> None:
        self.routing = routing
        self.version = routing.shard_version(shard)
        self.dropped = dropped
        self.foreign = dropped or (routing.collection is None and routing.primary != shard)
        self.owned: Predicate | None = Always(False) if self.foreign else _filter_of(routing, shard)
        self.accepted: set[bytes] = set()
        self.post_images: PostImages | None = None
        collection = routing.collection
        if collection is not None and collection.partitioner is None:
            self.post_images = PostImages(collection.key, self.owned)

    @property
    def collection(self) -> CollectionRouting | None:
        """The sharded collection, while it has not been dropped."""
        return None if self.dropped else self.routing.collection

    @property
    def shard_key(self) -> ShardKey | None:
        """Return the shard key; None for an unsharded collection and for column families."""
        return None if self.collection is None or self.post_images is None else self.collection.key


class RangeShardFilter:
    """Implements `docstore.node.shard_filter.ShardFilter`.

    `on_term` is called in the step of the first operation after this member has become primary in a new term; it may
    begin critical sections. `sections`: of migrations away, by collection.
    """

    def __init__(self, node: DataNode, pool: Pool, membership: Membership) -> None:
        self._node = node
        self._pool = pool
        self._membership = membership
        self._known: dict[str, FilteringMetadata] = {}
        self._base: dict[str, Routing] = {}
        self._forgotten: dict[str, int] = {}
        self._refreshing: dict[str, asyncio.Task[FilteringMetadata]] = {}
        self._confirmations = Confirmations()
        self.sections = CriticalSections(self.forget)
        self.holds = Holds(node)
        self.holds.on_end = self.forget
        records = MigrationRecords(node)
        self.handovers = Handovers(records, self.forget)
        self.may_have_orphans = records.may_have_orphans
        self._term = -1
        self.statements = RunningStatements(node.store.claims)
        node.store.claims.closed = lambda namespace: self.moving(namespace) is not None
        self.on_term: Callable[[], None] = lambda: None
        self._unsubscribe = node.store.subscribe(self._committed)

    async def stop(self) -> None:
        self._unsubscribe()
        self.holds.stop()
        tasks = list(self._refreshing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # The checks of every operation

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        """See the protocol. An operation without a version sees everything, but its writes wait like any other."""
        oplog = self._node.store.oplog
        if oplog is not None and oplog.term != self._term:
            self.settle_term()
        if self.sections or self.holds.sections or self.handovers.sections:
            section = self.moving(namespace) or self.holds.sections.of(namespace)
            if section is not None and (write or (section.reads and shard_version is not None)):
                raise Blocked(section.wait)
        if shard_version is None:
            return None
        metadata = self._known.get(namespace)
        if metadata is not None and shard_version in metadata.accepted:
            return metadata.owned
        return self._check(namespace, shard_version, metadata)

    def moving(self, namespace: str) -> CriticalSection | None:
        """The critical section of the move that hands the collection over, if one does."""
        return self.sections.of(namespace) or self.handovers.sections.of(namespace)

    def check_change(self, namespace: str) -> None:
        """See the protocol."""
        section = self.holds.changes.of(namespace)
        if section is not None:
            raise Blocked(section.wait)

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """See the protocol."""
        if self.current(namespace).routing.arrived(self.shard_name) > taken_at:
            raise CommandError(
                Code.SnapshotUnavailable,
                f"Unable to read from a snapshot: documents of {namespace} have come to this shard since",
            )

    def post_images(self, namespace: str) -> PostImages | None:
        """See the protocol."""
        metadata = self._known.get(namespace)
        return None if metadata is None else metadata.post_images

    def hold(self, namespace: str, covered_ranges: KeyRanges | None) -> Hold:
        """See the protocol."""
        self.statements.check_begin(namespace)
        now = partial(self.current, namespace)
        return self.statements.begin(namespace, self.current(namespace), self.shard_name, covered_ranges, now)

    def current(self, namespace: str) -> FilteringMetadata:
        """Return the metadata under which an operation was admitted. Errors: MustWait if it was forgotten meanwhile."""
        metadata = self._known.get(namespace)
        if metadata is None:
            raise MustWait(partial(_refreshed, self, namespace))
        return metadata

    def for_transaction(self, taken_at: int, claimed: Set[str]) -> TransactionShardFilter:
        """See the protocol."""
        settings = transactions_of(self._node).settings
        return TransactionShardFilter(self, taken_at, claimed, lambda: settings.patience_ms / 1000)

    def _check(self, namespace: str, shard_version: bytes, metadata: FilteringMetadata | None) -> Predicate | None:
        received = ShardVersion.from_document(document_to_python(shard_version))
        if metadata is not None and not metadata.foreign:
            if received.routes_like(metadata.version):
                if len(metadata.accepted) >= _ACCEPTED_VERSIONS:
                    metadata.accepted.clear()
                metadata.accepted.add(shard_version)
                return metadata.owned
            if received.older_than(metadata.version):
                raise stale_config(namespace, received, metadata.version, self.shard_name)
        raise MustWait(partial(self._check_fresh, namespace, received))

    async def _check_fresh(self, namespace: str, received: ShardVersion) -> None:
        """Read the routing anew; operations that waited for it enter again."""
        metadata = await self.refresh(namespace)
        if metadata.foreign or not received.routes_like(metadata.version):
            raise stale_config(namespace, received, metadata.version, self.shard_name)

    @property
    def shard_name(self) -> str:
        """Empty before a cluster has taken the node in."""
        identity = self._membership.identity
        return "" if identity is None else identity.name

    def settle_term(self) -> None:
        """Call `on_term` once in each term in which this member is primary."""
        oplog = self._node.store.oplog
        if oplog is None or oplog.term == self._term:
            return
        try:
            self._node.replication.check_write()
        except CommandError:
            return
        self._term = oplog.term
        for name in list(self.sections):
            self.sections.end(name)
        self.holds.load()
        self.on_term()

    async def ownership_of(self, namespace: str) -> FilteringMetadata | None:
        """See the protocol. A node that no cluster has taken in owns everything."""
        if self._membership.identity is None:
            return None
        return self._known.get(namespace) or await self.refresh(namespace)

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """See the protocol."""
        return self._known.get(namespace) is owned if owned is not None else self._membership.identity is None

    # Routing

    def forget(self, namespace: str) -> None:
        """The next operation reads the routing anew; of a database, those on anything in it."""
        if "." not in namespace:
            self.forget_database(namespace)
            return
        self._forgotten[namespace] = self._forgotten.get(namespace, 0) + 1
        self._known.pop(namespace, None)
        self._node.store.document_keys.pop(namespace, None)

    def forget_database(self, database: str) -> None:
        """Forget the routing of everything in a database."""
        for namespace in {*self._known, *self._base, *self._refreshing}:
            if split_namespace(namespace)[0] == database:
                self.forget(namespace)

    async def refresh(self, namespace: str) -> FilteringMetadata:
        """Read the routing from the config servers; one read at a time for each namespace."""
        task = self._refreshing.get(namespace)
        if task is None or task.done():
            # The routing just read may be forgotten already: waiting for it again could repeat forever.
            task = asyncio.ensure_future(self._read(namespace))
            self._refreshing[namespace] = task

            def ended(read: asyncio.Task[FilteringMetadata]) -> None:
                if self._refreshing.get(namespace) is read:
                    del self._refreshing[namespace]

            task.add_done_callback(ended)
        return await asyncio.shield(task)

    async def _read(self, namespace: str) -> FilteringMetadata:
        for _ in range(_LAG_ATTEMPTS):
            generation = self._forgotten.get(namespace, 0)
            routing = await self._membership.config_servers().routing(namespace, self._base.get(namespace))
            fence = stored_fence(self._node)
            current = await self._confirmations.is_current(routing, fence, self._membership.config_servers())
            await self._catch_up()
            if stored_fence(self._node) != fence:
                continue
            if _is_too_old(self._node, routing):
                await asyncio.sleep(_LAG_SECONDS)
                continue
            if not current or _shows_dropped(self._node, routing):
                return FilteringMetadata(routing, self.shard_name, dropped=True)
            self._base[namespace] = routing
            metadata = FilteringMetadata(routing, self.shard_name)
            if generation == self._forgotten.get(namespace, 0):
                self._known[namespace] = metadata
                self._node.store.document_keys.pop(namespace, None)
                if metadata.shard_key is not None:
                    self._node.store.document_keys[namespace] = DocumentKey(metadata.shard_key.fields)
                return metadata
        raise CommandError(Code.ExceededTimeLimit, f"the config servers' routing of {namespace} stays behind")

    async def _catch_up(self) -> None:
        """On a secondary: wait until it has applied everything that its primary has written by now, and majority
        reads agree with the primary's.
        """
        replication = self._node.replication
        hello = replication.hello()
        if hello.get("isWritablePrimary") or isinstance(replication, Standalone):
            return
        primary = hello.get("primary")
        if primary is None:
            raise CommandError(Code.NotPrimaryOrSecondary, "the shard has no primary that this member knows of")
        try:
            raw = await self._pool.command(primary, "admin", {"hello": 1}, timeout=_CATCH_UP_SECONDS)
        except NetworkError as error:
            raise CommandError(Code.HostUnreachable, f"the shard's primary does not answer: {error}") from error
        last_write = document_to_python(raw)["lastWrite"]
        written = OpTime.from_document(last_write["opTime"])
        committed = OpTime.from_document(last_write["majorityOpTime"])
        if committed.term < written.term:
            # A primary new in its term does not know yet how much of its predecessor's log is committed.
            committed = written
        state, store = replication.membership.state, self._node.store
        if not await replication.wait_for(
            lambda: store.last_optime >= written and state.commit_point >= committed, _CATCH_UP_SECONDS
        ):
            raise CommandError(Code.ExceededTimeLimit, "this member is too far behind its primary")

    def _committed(self, commit: Commit) -> None:
        """Watch this member's own writes, replicated ones included, for those that make routing stale. The local
        catalog need not be watched: its changes that affect routing also write one of these documents.
        """
        for change in commit.changes:
            if change.ns == ROUTING_SIGNALS and change.after is not None:
                self.forget(document_to_python(change.after)["_id"])
            elif change.ns == DATABASES and change.after is not None:
                self.forget_database(document_to_python(change.after)["_id"])
            elif change.ns == COORDINATORS:
                self.handovers.load()


def _is_too_old(node: DataNode, routing: Routing) -> bool:
    """True if this shard has given away chunks that the routing still shows as its own."""
    raw = stored_document(node, ROUTING_SIGNALS, routing.namespace)
    if raw is None or routing.collection is None:
        return False
    signal = document_to_python(raw)
    if "epoch" not in signal:
        return False
    least = Lastmod.from_timestamp(signal["lastRefreshedCollectionVersion"])
    return signal["epoch"] == routing.collection.epoch and routing.collection.chunks.version.lastmod < least


async def _refreshed(shard_filter: RangeShardFilter, namespace: str) -> None:
    await shard_filter.refresh(namespace)


def _filter_of(routing: Routing, shard: str) -> Predicate | None:
    if routing.collection is None:
        return None
    chunks = routing.collection.chunks
    if chunks.counts.get(shard, 0) == len(chunks):
        return None
    if not chunks.counts.get(shard, 0):
        return Always(False)
    if chunks.ranges_at_most(shard) > MAX_PREDICATE_RANGES:
        return Call(partial(_owns, chunks, shard))
    return Ranges(chunks.key.pattern, chunks.owned(shard))


def _owns(chunks: ChunkMap, shard: str, document: bytes) -> bool:
    """True if the document is in a chunk of the shard; false if its shard key runs into an array."""
    key = chunks.key.pattern.plain_key(document)
    return key is not None and chunks.chunk_at(key).shard == shard


def _shows_dropped(node: DataNode, routing: Routing) -> bool:
    """True if the routing shows a collection or database that was dropped here."""
    collection = stored_document(node, ROUTING_SIGNALS, routing.namespace)
    database = stored_document(node, DATABASES, split_namespace(routing.namespace)[0])
    if collection is None and database is None:
        return False
    return is_dropped(
        routing,
        None if collection is None else document_to_python(collection),
        None if database is None else document_to_python(database),
    )
