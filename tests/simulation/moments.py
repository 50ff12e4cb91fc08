"""The dangerous moments of a cluster, told as they come: to the story and to whoever waits for one to do harm.

The cores of migrations and of DDL pass from state to state; a moment is the step into one. Others are the step in
which the config servers' primary has changed the catalog and no other member has it yet, and the beginning of a read of
the routing. The classes of the shipping code are extended where they are used, so they do what they do.
"""

from __future__ import annotations

from typing import Any

import configsvr.server
import mongod.ddl.driver
import mongod.migration.donor.driver
import mongod.migration.recipient.driver
import mongod.migration.shard
import mongos.process
from configsvr.catalog.chunks import Chunks
from docstore.sharding.ddl.coordinator import Coordinator
from docstore.sharding.donor import Donor
from docstore.sharding.recipient import Recipient
from mongod.migration.deletions import RangeDeleter
from mongod.migration.shard_filter import RangeShardFilter
from mongos.routing.cache import RoutingCache
from tests.simulation.interpreter import CURRENT

MIGRATION = (
    "donor preparing", "donor cloning", "donor catching up", "donor critical", "donor handing over", "donor committing",
    "donor recovering", "donor deciding", "donor resolving", "donor forgetting", "recipient sweeping",
    "recipient receiving", "recipient securing", "recipient secured", "chunk given away", "range deletion",
)  # fmt: skip
COORDINATION = (
    "ddl holding", "ddl preparing", "ddl blocking", "ddl committing", "ddl applying", "ddl undoing", "ddl releasing",
    "ddl forgotten",
)  # fmt: skip
ROUTING = ("shard reads the routing", "router reads the routing")


def install() -> None:
    """Have the programs that start from now on tell their moments."""
    mongod.migration.donor.driver.Donor = _Donor  # type: ignore[misc]
    mongod.migration.recipient.driver.Recipient = _Recipient  # type: ignore[misc]
    mongod.ddl.driver.Coordinator = _Coordinator  # type: ignore[misc]
    mongod.migration.shard.RangeShardFilter = _ShardFilter  # type: ignore[misc]
    mongod.migration.shard.RangeDeleter = _RangeDeleter  # type: ignore[misc]
    configsvr.server.Chunks = _Chunks  # type: ignore[misc]
    mongos.process.RoutingCache = _RoutingCache  # type: ignore[misc]


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
        return await super()._read(namespace)


class _RangeDeleter(RangeDeleter):
    async def _delete(self, deletion: Any) -> None:
        _tell("range deletion")
        await super()._delete(deletion)


class _Chunks(Chunks):
    def move(self, *arguments: Any) -> Any:
        version = super().move(*arguments)
        _tell("chunk given away")
        return version


class _RoutingCache(RoutingCache):
    async def _read(self, namespace: str) -> Any:
        _tell("router reads the routing")
        return await super()._read(namespace)


def _words(state: Any) -> str:
    return str(state.name).lower().replace("_", " ")
