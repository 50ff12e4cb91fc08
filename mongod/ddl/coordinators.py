"""The DDL operations that this shard coordinates: one at a time for a namespace, none beside one on its database.

Invariant on the primary: operations under way, also those of an earlier primary, are registered here before a new one
begins. A client that asks for an operation already under way joins it; others wait for its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.peers import Peers
from docstore.sharding.ddl.operation import COORDINATORS, Kind, Operation, conflict
from mongod.ddl.driver import Driver
from mongod.drivers import Drivers, check_deadline, outcome_of
from mongod.migration.shard import Shard

LOG = component("SHARDING")
_LOOK_SECONDS = 0.5
"""The interval between checks that the client's operation was not killed."""
LOCK_SECONDS = 300.0
"""The wait of an operation without maxTimeMS for earlier ones."""


class Coordinators:
    """A service of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._peers = Peers(shard.pool)
        self._drivers: Drivers[bytes, Driver] = Drivers("DDL")
        self._claims: dict[str, asyncio.Future[None]] = {}
        shard.on_term.append(self._take_up)

    async def start(self) -> None:
        """Operations are taken up when this member becomes primary."""

    async def stop(self) -> None:
        """Stop all work; it resumes from the documents."""
        await self._drivers.stop()
        await self._peers.close()

    async def run(self, context: Context, kind: Kind, namespace: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out the operation and return its result. Errors: the operation's, LockBusy; MaxTimeMSExpired, after
        which it continues.
        """
        same = await self._turn(context, namespace, lambda operation: operation.same_as(kind, namespace, request))
        if same is not None:
            return await outcome_of(context, same.finished)
        operation = Operation.create(uuid.uuid4().bytes, kind, namespace, request)
        driver = Driver(self._shard, self._peers, operation)
        self._drivers.begin(bytes(operation.id), driver, resumed=False)
        return await outcome_of(context, driver.finished)

    async def drop_if_sharded(self, context: Context, namespace: str) -> None:
        """Drop, on all shards, the collection that the config servers show under that name, if any."""
        self._shard.shard_filter.forget(namespace)
        collection = (await self._shard.shard_filter.refresh(namespace)).routing.collection
        if collection is not None:
            await self.run(context, Kind.DROP_COLLECTION, namespace, {"uuid": collection.uuid})

    @contextlib.asynccontextmanager
    async def alone(self, context: Context, namespace: str) -> AsyncIterator[None]:
        """Keep DDL operations on the namespace out meanwhile. No later primary resumes what is done here."""
        await self._turn(context, namespace, lambda _operation: False)
        claim = self._claims[namespace] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._claims[namespace]
            claim.set_result(None)

    async def _turn(self, context: Context, namespace: str, joins: Callable[[Operation], bool]) -> Driver | None:
        """Wait until no other operation conflicts; return the driver of an equal one that is under way."""
        node = self._shard.node
        give_up = node.clock() + LOCK_SECONDS
        until = give_up if context.deadline is None else min(give_up, context.deadline)
        while True:
            self._shard.shard_filter.settle_term()
            node.replication.check_write()
            waits: list[asyncio.Future[None]] = [
                claim for claim_namespace, claim in self._claims.items() if conflict(claim_namespace, namespace)
            ]
            for driver, task in self._drivers:
                if joins(driver.operation):
                    return driver
                if conflict(driver.operation.namespace, namespace):
                    waits.append(task)
            if not waits:
                return None
            if node.clock() >= until:
                check_deadline(context)
                raise CommandError(Code.LockBusy, f"another operation on {namespace} or its database is under way")
            context.operation.check()
            await asyncio.wait(waits[:1], timeout=min(until - node.clock(), _LOOK_SECONDS))

    def _take_up(self) -> None:
        """Enter a term as primary: end what an earlier term began here, resume what is on disk."""
        node = self._shard.node
        collection = node.store.collection(COORDINATORS)
        drivers: list[tuple[bytes, Driver]] = []
        for raw in [] if collection is None else collection.documents(node.engine):
            operation = Operation.from_raw(raw)
            LOG.info("DDL resumed", ns=operation.namespace, phase=operation.phase.value)
            drivers.append((bytes(operation.id), Driver(self._shard, self._peers, operation)))
        self._drivers.take_up(drivers)


def coordinators_of(context: Context) -> Coordinators:
    """Return the coordinators of the shard that serves this request."""
    return context.services.parts[Coordinators]
