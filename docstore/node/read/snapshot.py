"""What a read sees: the reader for its read concern, and the filter of what the node owns.

* `local` and `available` read the newest state; without `afterClusterTime` they never wait.
* `majority` reads the newest state that a majority has.
* `linearizable` reads the newest state and waits until a majority has confirmed that this node was the primary.
* `snapshot` reads the majority's state at one cluster time, and says which; refused where the catalog has changed.
* Both need a member of a replica set.
* A read checks the shard version after all waiting, in the step in which its snapshot is taken, so that filter and
  state agree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

from docstore.bson import document_to_python
from docstore.commands.concerns import LOCAL, ReadLevel
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import CATALOG_PREFIX, after_prefix
from docstore.node.node import DataNode, node_of
from docstore.node.shard_filter import enter_at_once
from docstore.replicaset.standalone import Standalone
from docstore.storage import Family
from docstore.storage.engine import Reader

_NEWEST = (ReadLevel.LOCAL, ReadLevel.AVAILABLE)


@dataclass(slots=True)
class View:
    """One state of the data. `owned` is None where the node owns all of the collection; `release` after the last
    read.
    """

    reader: Reader
    release: Callable[[], None]
    owned: Predicate | None


def view_of(context: Context) -> View | Awaitable[View]:
    """The state that the request may read; awaitable when it must wait for it.

    Errors: StaleConfig, NotImplemented for unsupported read concerns, MaxTimeMSExpired, those of the replica set.
    """
    node = node_of(context)
    concern = context.read_concern
    if concern.level not in _NEWEST or concern.after_cluster_time is not None:
        check_level(node, concern.level)
        if node.replication.set_name is None and concern.after_cluster_time is not None:
            raise CommandError(Code.IllegalOperation, "afterClusterTime needs a member of a replica set")
        return _view_later(context, node)
    owned = None
    if node.shard_filter is not None:
        entered = node.shard_filter.check_version(context.namespace, context.shard_version, write=False)
        if isawaitable(entered):
            return _view_when_owned(context, node, entered)
        owned = entered
    snapshot = node.engine.snapshot()
    return View(snapshot, snapshot.close, owned)


def check_level(node: DataNode, level: ReadLevel) -> None:
    """Refuse the levels that this node cannot give."""
    if level in (ReadLevel.LINEARIZABLE, ReadLevel.SNAPSHOT) and node.replication.set_name is None:
        raise CommandError(Code.NotAReplicaSet, f"read concern {level.value} needs a member of a replica set")


def newest(context: Context) -> tuple[bool, Predicate | None]:
    """(whether the request may read the newest state at once, the filter of what is owned in it).

    For reads of a single step, which need no snapshot. Errors: StaleConfig.
    """
    concern = context.read_concern
    if concern is not LOCAL and (concern.level not in _NEWEST or concern.after_cluster_time is not None):
        return False, None
    return enter_at_once(node_of(context).shard_filter, context.namespace, context.shard_version, write=False)


async def _view_when_owned(context: Context, node: DataNode, entering: Awaitable[Predicate | None]) -> View:
    owned = await enter(context, node, entering, write=False)
    snapshot = node.engine.snapshot()
    return View(snapshot, snapshot.close, owned)


async def _view_later(context: Context, node: DataNode) -> View:
    reader, release = await _reader(context, node)
    try:
        while node.shard_filter is not None:
            entered = node.shard_filter.check_version(context.namespace, context.shard_version, write=False)
            if not isawaitable(entered):
                return View(reader, release, entered)
            # What the wait was for may have changed what a majority has: take a newer state with the newer filter.
            release()
            await entered
            reader, release = await _reader(context, node)
    except BaseException:
        release()
        raise
    return View(reader, release, None)


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
    """Whether the collection stood in the catalog of that state as it does now."""
    collection = node.store.collection(namespace)
    if collection is None:
        return not any(
            document_to_python(row)["ns"] == namespace
            for _, row in reader.items(Family.META, CATALOG_PREFIX, after_prefix(CATALOG_PREFIX))
        )
    key, row = node.store.catalog.row(collection)
    return reader.get(Family.META, key) == row


async def enter(
    context: Context, node: DataNode, entering: Awaitable[Predicate | None], *, write: bool, namespace: str = ""
) -> Predicate | None:
    """Wait until the ownership lets the request in; the answer holds until the next await. `namespace`: where it is
    not the request's.
    """
    entered: Predicate | Awaitable[Predicate | None] | None = entering
    while isawaitable(entered):
        await entered
        assert node.shard_filter is not None
        context.operation.check()
        entered = node.shard_filter.check_version(namespace or context.namespace, context.shard_version, write=write)
    return entered
