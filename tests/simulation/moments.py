"""The dangerous moments of a cluster, told as they come: to the story and to whoever waits for one to do harm.

The cores of migrations and of DDL pass from state to state; a moment is the step into one. Others are the step in
which the config servers' primary has changed the catalog and no other member has it yet, the beginning of a read of
the routing, and the steps of a commit over several shards: those of its coordinator, and those in which a participant's
primary has written that it is prepared, or how it has ended, and no other member has that yet. The classes of the
shipping code are extended where they are used, so they do what they do.
"""

from __future__ import annotations

from typing import Any

import configsvr.server
import docstore.node.transactions.registry
import mongod.ddl.driver
import mongod.migration.donor.driver
import mongod.migration.recipient.driver
import mongod.migration.shard
import mongod.transactions.coordinators
import mongos.process
import mongos.transactions.registry
from configsvr.catalog.chunks import Chunks
from configsvr.catalog.cluster import Cluster
from docstore.node.transactions.numbers import SessionTransactions
from docstore.sharding.ddl.coordinator import Coordinator
from docstore.sharding.donor import Donor
from docstore.sharding.recipient import Recipient
from mongod.migration.deletions import RangeDeleter
from mongod.migration.records import Removed
from mongod.migration.shard_filter import RangeShardFilter
from mongod.transactions.driver import CommitDriver
from mongos.routing.cache import RoutingCache
from mongos.transactions.ending import commit, recover
from tests.simulation.interpreter import CURRENT

MIGRATION = (
    "donor preparing", "donor cloning", "donor catching up", "donor critical", "donor handing over", "donor committing",
    "donor recovering", "donor deciding", "donor resolving", "donor forgetting", "recipient sweeping",
    "recipient receiving", "recipient securing", "recipient secured", "chunk given away", "range deletion",
)  # fmt: skip
COORDINATION = (
    "ddl holding", "ddl preparing", "ddl committing", "ddl applying", "ddl undoing", "ddl releasing",
    "ddl forgotten",
)  # fmt: skip
COMMIT = (
    "commit begins", "commit on its way to disk", "participants asked to prepare", "participant prepared",
    "participant's vote heard", "decision on its way to disk", "decision logged", "participant committed",
    "participant aborted", "participant has heard the decision", "commit to be forgotten", "commit forgotten",
    "commit resumed", "prepared transaction taken over", "router commits", "router recovers",
)  # fmt: skip
ENDS = ("transaction committed", "router commits", "router recovers")
"""Of transactions that at most one shard has written in."""
ROUTING = ("shard reads the routing", "router reads the routing")
ROUTING_READ = "shard has read the routing"
GIVEN_AWAY = "chunk given away"
DATABASE_MOVED = "database given away"


def install() -> None:
    """Have the programs that start from now on tell their moments."""
    mongod.migration.donor.driver.Donor = _Donor  # type: ignore[misc]
    mongod.migration.recipient.driver.Recipient = _Recipient  # type: ignore[misc]
    mongod.ddl.driver.Coordinator = _Coordinator  # type: ignore[misc]
    mongod.migration.shard.RangeShardFilter = _ShardFilter  # type: ignore[misc]
    mongod.migration.shard.RangeDeleter = _RangeDeleter  # type: ignore[misc]
    configsvr.server.Chunks = _Chunks  # type: ignore[misc]
    configsvr.server.Cluster = _Cluster  # type: ignore[misc]
    mongos.process.RoutingCache = _RoutingCache  # type: ignore[misc]
    mongod.transactions.coordinators.CommitDriver = _CommitDriver  # type: ignore[misc]
    docstore.node.transactions.registry.SessionTransactions = _SessionTransactions  # type: ignore[misc]
    mongos.transactions.registry.commit = _router_commits
    mongos.transactions.registry.recover = _router_recovers


def _tell(moment: str) -> None:
    process = CURRENT.get()
    if process is None or not process.alive:
        return
    process.world.tell(process.name, f"is at: {moment}")
    for listener in process.world.moments:
        listener(process, moment)


class _Donor(Donor):
    def receive(self, event: Any, now: float) -> Any:
        before = self.state
        effects = super().receive(event, now)
        if self.state is not before:
            _tell(f"donor {_words(self.state)}")
        return effects

    def resume(self, decision: Any) -> Any:
        effects = super().resume(decision)
        _tell(f"donor {_words(self.state)}")
        return effects


class _Recipient(Recipient):
    def receive(self, event: Any, now: float) -> Any:
        before = self._incoming and self._incoming.state
        effects = super().receive(event, now)
        after = self._incoming and self._incoming.state
        if after is not None and after is not before:
            _tell(f"recipient {_words(after)}")
        return effects


class _Coordinator(Coordinator):
    def receive(self, event: Any) -> Any:
        before = self.operation.phase
        effects = super().receive(event)
        if self.ended:
            _tell("ddl forgotten")
        elif self.operation.phase is not before:
            _tell(f"ddl {self.operation.phase.value}")
        return effects

    def start(self) -> Any:
        _tell(f"ddl {self.operation.phase.value}")
        return super().start()


class _ShardFilter(RangeShardFilter):
    async def _read(self, namespace: str) -> Any:
        _tell("shard reads the routing")
        known = await super()._read(namespace)
        _tell(ROUTING_READ)
        return known


class _RangeDeleter(RangeDeleter):
    async def _delete(self, deletion: Any) -> None:
        _tell("range deletion")
        await super()._delete(deletion)


class _Chunks(Chunks):
    def move(self, *arguments: Any) -> Any:
        version = super().move(*arguments)
        _tell(GIVEN_AWAY)
        return version


class _Cluster(Cluster):
    def move_primary(self, *arguments: Any) -> Any:
        moved = super().move_primary(*arguments)
        _tell(DATABASE_MOVED)
        return moved


class _RoutingCache(RoutingCache):
    async def _read(self, namespace: str) -> Any:
        _tell("router reads the routing")
        return await super()._read(namespace)


class _CommitDriver(CommitDriver):
    async def run(self, *, resumed: bool) -> None:
        _tell("commit resumed" if resumed else "commit begins")
        await super().run(resumed=resumed)

    async def _vote(self) -> Any:
        _tell("participants asked to prepare")
        return await super()._vote()

    async def _prepare(self, shard: str) -> Any:
        vote = await super()._prepare(shard)
        _tell("participant's vote heard")
        return vote

    async def _tell(self, shard: str, decision: Any) -> None:
        await super()._tell(shard, decision)
        _tell("participant has heard the decision")

    async def _write(self, change: tuple[str, Any]) -> None:
        removes, decided = isinstance(change[1], Removed), self.commitment.decision is not None
        if removes:
            _tell("commit to be forgotten")
        else:
            _tell("decision on its way to disk" if decided else "commit on its way to disk")
        await super()._write(change)
        if removes:
            _tell("commit forgotten")
        elif decided:
            _tell("decision logged")


class _SessionTransactions(SessionTransactions):
    def commit(self, transaction: Any) -> None:
        super().commit(transaction)
        _tell("transaction committed")

    def prepare(self, transaction: Any) -> None:
        super().prepare(transaction)
        _tell("participant prepared")

    def decide(self, transaction: Any, commit_timestamp: int | None) -> None:
        super().decide(transaction, commit_timestamp)
        _tell("participant aborted" if commit_timestamp is None else "participant committed")

    def take_over(self, *arguments: Any) -> None:
        super().take_over(*arguments)
        _tell("prepared transaction taken over")


async def _router_commits(*arguments: Any) -> bytes:
    _tell("router commits")
    return await commit(*arguments)


async def _router_recovers(*arguments: Any) -> bytes:
    _tell("router recovers")
    return await recover(*arguments)


def _words(state: Any) -> str:
    return str(state.name).lower().replace("_", " ")
