"""The members that a consistency level requires: their number, the reachable ones, and waiting for them.

The requirement follows from the number of data-bearing members, or from the keyspace's replication factor if that is
larger. A request that too few members can serve is refused before any effect (Unavailable). One that does not finish
in time gets TimedOut, and its writes stay on the primary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.commands.concerns import WriteConcern
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replication.leadership import positions
from docstore.replication.progress import holds
from docstore.widecolumn.model.consistency import (
    QUORUMS,
    SERIAL_LEVELS,
    Level,
    check_read_level,
    check_write_level,
    members_needed,
)
from docstore.widecolumn.model.errors import unavailable, write_timed_out
from docstore.widecolumn.node.keyspaces import wide_of

if TYPE_CHECKING:
    from docstore.commands.context import Context
    from docstore.optime import OpTime
    from docstore.widecolumn.model.column_families import Keyspace


def copies(node: DataNode, keyspace: Keyspace) -> int:
    """Return the number of copies of the keyspace: the declared factor, or the data-bearing members if those are
    more.

    Every member keeps all data. With fewer copies, one quorum would not overlap the next.
    """
    declared = keyspace.replication_factor or 1
    replication = node.replication
    if not isinstance(replication, ReplicaSet):
        return declared
    config = replication.membership.state.config
    return declared if config is None else max(declared, sum(member.data_bearing for member in config.members))


def others_alive(node: DataNode) -> list[str]:
    """Return the addresses of the other readable members, nearest first."""
    replication = node.replication
    if not isinstance(replication, ReplicaSet):
        return []
    state = replication.membership.state
    if state.config is None:
        return []
    peers = [
        peer
        for member in state.config.members
        if member.data_bearing and (peer := state.peers.get(member.host)) is not None
        if peer.up and peer.state.readable
    ]
    return [peer.host for peer in sorted(peers, key=lambda peer: peer.ping)]


def check_write(node: DataNode, keyspace: Keyspace, level: Level) -> int:
    """Return how many members must have a write. Errors: Unavailable, NotWritablePrimary if another member is
    primary.
    """
    check_write_level(level)
    if level is Level.ONE or level is Level.ANY or level is Level.ZERO or level is Level.LOCAL_ONE:
        needed = 1
    else:
        needed = members_needed(level, copies(node, keyspace))
        alive = 1 + len(others_alive(node))
        if alive < needed:
            raise unavailable(level.value, needed, alive, write=True)
    _check_primary(node, level, needed, write=True)
    return needed


def _check_primary(node: DataNode, level: Level, needed: int, *, write: bool) -> None:
    """Raise NotWritablePrimary if another member is primary, Unavailable if none is."""
    try:
        node.replication.check_write()
    except CommandError as refusal:
        if refusal.code != Code.NotWritablePrimary or node.replication.hello().get("primary"):
            raise
        raise unavailable(level.value, needed, 0, write=write) from None


async def wait_written(context: Context, node: DataNode, optime: OpTime, level: Level, needed: int) -> None:
    """Wait until that many members have the write. Errors: TimedOut."""
    oplog = node.store.oplog
    assert oplog is not None, "a member of a set has an oplog"
    term = oplog.term
    for concern in _concerns(node, level, needed):
        failed = await node.replication.wait_write(optime, concern, context.deadline)
        if failed is not None:
            raise write_timed_out(level.value, needed, _holders(node, optime), failed["errmsg"])
    if oplog.term != term:
        # The members counted may hold the log of another primary.
        raise write_timed_out(level.value, needed, 0, "another primary has been elected")


def _holders(node: DataNode, optime: OpTime) -> int:
    """Return how many members are known to have the write."""
    replication = node.replication
    if not isinstance(replication, ReplicaSet):
        return 1
    state = replication.membership.state
    return sum(holds(position, optime, journal=False, term=state.term) for position in positions(state).values())


def _concerns(node: DataNode, level: Level, needed: int) -> list[WriteConcern]:
    """Return the write concerns to wait for. A quorum that may include non-voting members does not protect from a
    rollback, so it needs a majority of voters as well.
    """
    timeout = wide_of(node).settings.write_timeout
    concerns = [WriteConcern(needed, timeout_ms=timeout)]
    replication = node.replication
    if level in QUORUMS and isinstance(replication, ReplicaSet):
        config = replication.membership.state.config
        if config is not None and any(member.data_bearing and not member.voter for member in config.members):
            concerns.append(WriteConcern("majority", timeout_ms=timeout))
    return concerns


def check_read(node: DataNode, keyspace: Keyspace, level: Level) -> int:
    """Return how many members must answer a read. At SERIAL only the primary, which a majority confirms
    (`docstore.widecolumn.node.read_state`).

    Errors: InvalidRequest, Unavailable, NotWritablePrimary.
    """
    if level is Level.ONE or level is Level.LOCAL_ONE:
        return 1
    check_read_level(level)
    needed = members_needed(level, copies(node, keyspace))
    alive = 1 + len(others_alive(node))
    if alive < needed:
        raise unavailable(level.value, needed, alive, write=False)
    if level in SERIAL_LEVELS:
        _check_primary(node, level, needed, write=False)
        return 1
    return needed
