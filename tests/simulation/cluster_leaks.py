"""What is left in the processes of a cluster at rest, although nobody uses it any more.

Looked at from outside, in every process that runs: cursors, critical sections, holds, migrations and DDL under way,
statements that moves would wait for, transactions that are open or prepared and what they claim, snapshots of the
engine, and tasks that a cluster at rest does not have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from docstore.node.transactions.registry import transactions_of
from mongod.ddl.coordinators import Coordinators
from mongod.ddl.participant import Participant
from mongod.migration.shard import Shard
from mongod.transactions.coordinators import CommitCoordinators
from tests.simulation.leaks import OPLOG, snapshots
from tests.simulation.world import Broken

if TYPE_CHECKING:
    from tests.simulation.process import Incarnation
    from tests.simulation.sharded import SimulatedCluster

QUIET_SECONDS = 20.0
_AT_REST = frozenset((
    "", "Balancer.run", "ConfigServer._look_after", "Connection._follow", "Driver._send", "Event.wait",
    "Incarnation.start.<locals>.run", "GroupFlusher._run", "Monitor._run",
    "PeriodicTask._run", "Pool._reap", "Pool.command", "RangeDeleter._run",
    "Shard._watch_terms", "ShardHosts.run", "SyncSourceFollower._run", "SyncSourceFollower._work",
    "UnfinishedOutputs._watch_elections", "_ping",
))  # fmt: skip
"""The tasks of a cluster at rest; one without a name answers a request that waits."""


async def no_leaks(cluster: SimulatedCluster, *, cursors: bool) -> None:
    """Errors: Broken where something is left a while after the last request. `cursors`: nobody who held one on a shard
    has died, been cut off, or given up waiting.
    """
    end = cluster.world.now + QUIET_SECONDS
    while found := list(leaks(cluster, cursors=cursors)):
        if cluster.world.now > end:
            raise Broken("left behind: " + "; ".join(found))
        await asyncio.sleep(0.5)


def leaks(cluster: SimulatedCluster, *, cursors: bool) -> Iterator[str]:
    """What is left now, each as a sentence."""
    for machine in cluster.machines:
        process = machine.process
        if process is None or not process.alive or process.node is None:
            continue
        for what in _of_process(process, cursors=cursors):
            yield f"{process.name} has {what}"


def _of_process(process: Incarnation, *, cursors: bool) -> Iterator[str]:
    listener = process.listener()
    if listener is not None:
        services = listener.dispatcher.services
        if cursors:
            yield from _named("cursors", [each.origin for each in services.cursors if each.namespace != OPLOG])
    for name, count in _tasks(process).items():
        if name not in _AT_REST or (name == "Monitor._run" and count > 2 * len(process.world.machines)):
            yield f"{count} tasks {name}"
    node = getattr(process.node, "node", None)
    if node is None:
        return
    yield from snapshots(process, node.replication)
    shard = node.parts.get(Shard)
    if shard is not None:
        yield from _of_shard(shard)
        yield from _named("DDL operations", node.parts[Coordinators]._drivers)
        yield from _named("claims of DDL", node.parts[Coordinators]._claims)
        yield from _named("acts of DDL", node.parts[Participant]._acting)
        yield from _of_transactions(node)


def _of_transactions(node: Any) -> Iterator[str]:
    yield from _named("open transactions", transactions_of(node).sessions.open)
    yield from _named("prepared transactions", node.store.sessions.prepared)
    yield from _named("claims of keys", node.store.claims.keys)
    yield from _named("claims of collections", [*node.store.claims._users, *node.store.claims._names])
    yield from _named("collections that are waited for", node.store.claims._waiting)
    yield from _named("commits under way", node.parts[CommitCoordinators]._drivers)


def _of_shard(shard: Any) -> Iterator[str]:
    shard_filter = shard.shard_filter
    yield from _named("donations", shard._donations)
    yield from _named("donations that begin", ["one"] if shard._starting else [])
    if shard.records.may_write():
        # What an earlier primary has begun to take it forgets when it is primary anew.
        yield from _named("migrations coming in", [each for each in [shard.recipient.running] if each is not None])
    yield from _named("requests of donors", shard.recipient._answers)
    yield from _named("critical sections", shard_filter.sections)
    yield from _named("holds", shard_filter.holds._standing.values())
    yield from _named("held sections", shard_filter.holds.sections)
    yield from _named("running statements", [each for each in shard_filter.statements._holds.values() if each])
    yield from _named("gates for statements", shard_filter.statements._gates)
    yield from _named("reads of the routing", shard_filter._refreshing)


def _named(what: str, found: Any) -> Iterator[str]:
    found = list(found)
    if found:
        yield f"{len(found)} {what}: {str(found[0])[:120]}"


def _tasks(process: Incarnation) -> Counter[str]:
    """Those under way, by the names of their coroutines."""
    return Counter(getattr(task.get_coro(), "__qualname__", "") for task in process.tasks())
