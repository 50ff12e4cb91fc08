# cython: annotation_typing=False
"""The state that a read sees: the reader for its read concern, and the filter of owned documents.

* `local` and `available` read the newest state; without `afterClusterTime` they never wait.
* `majority` reads the newest majority-committed state.
* `linearizable` reads the newest state and waits until a majority has confirmed that this node was the primary.
* `snapshot` reads the majority-committed state at one cluster time, and returns that time. It fails if the collection's
  catalog entry has changed, or if chunks have arrived since.
* The latter two need a member of a replica set.
* A read checks the shard version before and after it takes its state, so that filter and state agree: the owned
  documents arrived before the version, and none leave while it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import cython

from docstore.bson import document_to_python
from docstore.commands.concerns import LOCAL, ReadLevel
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import CATALOG_PREFIX, after_prefix
from docstore.node.entry import enter_read
from docstore.node.node import DataNode, node_of
from docstore.node.shard_filter import MustWait, enter_at_once
from docstore.node.slices import Steps
from docstore.replicaset.standalone import Standalone
from docstore.storage import Family
from docstore.storage.engine import Reader

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.replicaset.read.snapshot_leases import Lease
    from docstore.storage.engine import Engine

_NEWEST = (ReadLevel.LOCAL, ReadLevel.AVAILABLE)


@dataclass
class View:
    """A snapshot of the data; call `release` after the last read.

    `owned`: None if the node owns the whole collection. `newest`: True while collection counters (`Collection.count`)
    describe it, until the next await. Always False in a transaction and for a majority-committed state.
    """

    reader: Reader
    release: Callable[[], None]
    owned: Predicate | None
    newest: bool = False


def view_of(context: Context) -> Steps[View]:
    """Return the state that the request reads.

    Errors: StaleConfig, NotImplemented for unsupported read concerns, MaxTimeMSExpired, those of the replica set.
    """
    node = node_of(context)
    concern = context.read_concern
    if concern.level in _NEWEST and concern.after_cluster_time is None:
        owned = None if node.shard_filter is None else (yield from enter_read(context))
        snapshot = node.engine.snapshot()
        return View(snapshot, snapshot.close, owned, newest=node.transaction is None)
    check_level(node, concern.level)
    if node.replication.set_name is None and concern.after_cluster_time is not None:
        raise CommandError(Code.IllegalOperation, "afterClusterTime needs a member of a replica set")
    while True:
        yield from enter_read(context)
        reader, release = yield _reader(context, node)
        try:
            owned = None
            if node.shard_filter is not None:
                owned = node.shard_filter.check_version(context.namespace, context.shard_version, write=False)
                if concern.level is ReadLevel.SNAPSHOT and context.shard_version is not None:
                    assert context.at_cluster_time is not None, "the state has just been taken"
                    node.shard_filter.check_placed(context.namespace, context.at_cluster_time)
            return View(reader, release, owned)
        except MustWait as section:
            # The wait may advance the majority-committed state: take a newer one with the newer filter.
            release()
            yield section.wait()
        except BaseException:
            release()
            raise


def check_level(node: DataNode, level: ReadLevel) -> None:
    """Reject read concern levels that this node cannot serve. Errors: NotAReplicaSet."""
    if level in (ReadLevel.LINEARIZABLE, ReadLevel.SNAPSHOT) and node.replication.set_name is None:
        raise CommandError(Code.NotAReplicaSet, f"read concern {level.value} needs a member of a replica set")


def newest(context: Context) -> tuple[bool, Predicate | None]:
    """Return (True if the request may read the newest state now, the filter of owned documents).

    For reads of a single step, which need no snapshot. Errors: StaleConfig.
    """
    concern, node = context.read_concern, node_of(context)
    if concern is not LOCAL and (concern.level not in _NEWEST or concern.after_cluster_time is not None):
        is_snapshot = concern.level is ReadLevel.SNAPSHOT
        if is_snapshot and node.shard_filter is not None:
            # Chunks that arrived after the state was taken are not in it.
            return False, None
        at = node.replication.newest_state(concern)
        if at is None:
            return False, None
        if is_snapshot:
            context.progress.at_cluster_time = at
    return enter_at_once(node.shard_filter, context.namespace, context.shard_version, write=False)


class StepState:
    """The state for a request of a single step, which need not release it. `owned`: as in `View`.

    `newest`: as in `View`, but a transaction's newest state counts as such.
    """

    __slots__ = ("_lease", "owned", "reader")

    def __init__(self, reader: Reader, owned: Predicate | None, lease: Lease | None = None) -> None:
        self.reader = reader
        self.owned = owned
        self._lease = lease

    @property
    def newest(self) -> bool:
        return self._lease is None

    def hold(self) -> tuple[Reader, Callable[[], None]]:
        """Return (a lasting reader of the state, its release function), for reads after the step."""
        if self._lease is not None:
            return self._lease.hold()
        snapshot = cast("Engine", self.reader).snapshot()
        return snapshot, snapshot.close

    def holds(self, node: DataNode, collection: Collection) -> bool:
        """Return True if the collection's catalog entry in this state is the current one."""
        lease, version = self._lease, node.store.catalog.version
        if lease is None or lease.checked.get(collection.ns) == version:
            return True
        key, row = node.store.catalog.row(collection)
        if lease.snapshot.get(Family.META, key) != row:
            return False
        lease.checked[collection.ns] = version
        return True


@cython.ccall
def state_at_once(context: Context, collection: Collection) -> StepState | None:
    """Return the state of the collection if the request can read it without waiting; else None.

    It is the newest, or one that was read before at the same cluster time. Errors: StaleConfig.
    """
    node = node_of(context)
    at_once, owned = newest(context)
    if at_once:
        return StepState(node.engine, owned)
    at, leases = context.read_concern.at_cluster_time, node.replication.leases
    if at is None or leases is None or node.shard_filter is not None:
        return None
    lease = leases.lease_at(at)
    if lease is None:
        return None
    state = StepState(lease.snapshot, None, lease)
    if not state.holds(node, collection):
        return None
    context.progress.at_cluster_time = at
    return state


async def _reader(context: Context, node: DataNode) -> tuple[Reader, Callable[[], None]]:
    concern = context.read_concern
    if concern.level is not ReadLevel.SNAPSHOT or isinstance(node.replication, Standalone):
        return await node.replication.reader(concern, context.deadline)
    at, reader, release = await node.replication.snapshot_reader(concern, context.deadline)
    if not _same_catalog(node, context.namespace, reader):
        release()
        raise CommandError(
            Code.SnapshotUnavailable,
            "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation.",
        )
    context.progress.at_cluster_time = at
    return reader, release


def _same_catalog(node: DataNode, namespace: str, reader: Reader) -> bool:
    """Return True if the collection's catalog entry in the reader's state is the current one."""
    collection = node.store.collection(namespace)
    if collection is None:
        return not any(
            document_to_python(row)["ns"] == namespace
            for _, row in reader.items(Family.META, CATALOG_PREFIX, after_prefix(CATALOG_PREFIX))
        )
    key, row = node.store.catalog.row(collection)
    return reader.get(Family.META, key) == row
