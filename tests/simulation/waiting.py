"""Who waits for whom in a cluster, as its shards' primaries show it: transactions, changes of definitions, moves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from docstore.node.transactions.registry import transactions_of
from docstore.sharding.ddl.operation import Blocks, conflict
from mongod.ddl.participant import Participant
from mongod.migration.shard import Shard
from tests.checkers.waiting import WaitingChecker

if TYPE_CHECKING:
    from tests.checkers.history import Anomaly
    from tests.simulation.process import Incarnation
    from tests.simulation.sharded import SimulatedCluster
    from tests.simulation.workloads import Workload

LOOK_SECONDS = 0.05
CYCLE_SECONDS = 1.0
"""Longer than a transaction waits for a move of a collection that it does not use."""
OWN_SECONDS = 0.25
"""The same of one that it uses, in which it goes on."""


async def watch(cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
    """The cycles of waiting that stand for long, until the workload is over."""
    all_cycles, own_cycles = WaitingChecker(CYCLE_SECONDS), WaitingChecker(OWN_SECONDS)
    while not work.over:
        edges: dict[Hashable, set[Hashable]] = defaultdict(set)
        own: dict[Hashable, set[Hashable]] = defaultdict(set)
        for process in _primaries(cluster):
            for waiter, awaited in _of_shard(process):
                edges[waiter].add(awaited)
            for waiter, awaited in _own_moves(process):
                own[waiter].add(awaited)
        all_cycles.look(cluster.world.now, edges)
        own_cycles.look(cluster.world.now, own)
        await asyncio.sleep(LOOK_SECONDS)
    return [*all_cycles.anomalies, *own_cycles.anomalies]


def _primaries(cluster: SimulatedCluster) -> Iterator[Incarnation]:
    for members in cluster.shards.values():
        machine = members.primary()
        process = None if machine is None else machine.process
        if process is not None and process.alive and process.node is not None:
            yield process


def _of_shard(process: Incarnation) -> Iterator[tuple[str, str]]:
    node = process.node.node
    shard = node.parts[Shard]
    holds, statements = shard.shard_filter.holds, shard.shard_filter.statements
    users = _users(node)
    for identity, _ in node.parts[Participant]._acting:
        hold = holds._standing.get(identity)
        for namespace, transactions in users.items() if hold is not None else ():
            if conflict(hold.namespace, namespace):
                yield from ((_change(hold), each) for each in transactions)
    for namespace in statements._gates:
        yield from ((_move(shard, namespace), each) for each in users.get(namespace, ()))
    for waiter, namespace in _statements(process):
        for hold in holds.all_standing():
            if hold.blocks is not Blocks.NOTHING and conflict(hold.namespace, namespace):
                yield waiter, _change(hold)
        moving = namespace in statements._gates or namespace in shard.shard_filter.sections
        if moving and waiter not in users.get(namespace, ()):
            yield waiter, _move(shard, namespace)


def _own_moves(process: Incarnation) -> Iterator[tuple[str, str]]:
    """Of transactions with a statement under way on a collection that they use and a move waits for."""
    node = process.node.node
    shard, users = node.parts[Shard], _users(node)
    for waiter, namespace in _statements(process):
        if namespace in shard.shard_filter.statements._gates and waiter in users.get(namespace, ()):
            yield waiter, _move(shard, namespace)
            yield _move(shard, namespace), waiter


def _statements(process: Incarnation) -> Iterator[tuple[str, str]]:
    """(transaction, namespace) of each request of one that is under way."""
    services = process.node.listener.dispatcher.services
    for operation in list(services.operations._operations.values()):
        session = operation.context.session
        if session is not None and session.in_transaction:
            yield _transaction(session.lsid, session.txn_number), operation.context.namespace


def _users(node: Any) -> dict[str, set[str]]:
    """The transactions that use a collection, by its namespace."""
    names = {
        id(each.store): _transaction(each.lsid, each.number)
        for each in transactions_of(node).sessions._by_session.values()
        if each.store is not None
    }
    claims = node.store.claims
    return {ns: {names.get(id(each), "a transaction") for each in owners} for ns, owners in claims._users.items()}


def _transaction(lsid: bytes, number: int) -> str:
    return f"transaction {number} of {lsid[:3].hex()}"


def _change(hold: Any) -> str:
    return f"change {bytes(hold.operation)[:3].hex()} of {hold.namespace}"


def _move(shard: Any, namespace: str) -> str:
    return f"a move of {namespace} from {shard.name}"
