"""What the router knows of where collections live; it may be out of date.

The router is optimistic: it uses what it knows until a shard answers StaleConfig, then brings that one collection up to
date and tries again. Ownership changes only on the config servers, so a stale belief costs a round trip, never a
wrong answer: shards check the version of every routed operation.

Always true: a namespace's routing is only ever replaced by one read later from the config servers; concurrent refreshes
of one namespace share one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.chunks import InconsistentChunks
from docstore.sharding.routing import Routing, RoutingRead
from docstore.sharding.version import STALE_CODES, ShardVersion
from mongos.routing.shards import CONFIG, Shard

MAX_ATTEMPTS = 30
UNREACHABLE_CODES = frozenset((Code.FailedToSatisfyReadPreference, Code.HostUnreachable, Code.HostNotFound))
_ON_CONFIG_SERVERS = frozenset(("admin", "config"))
_MOST_READ = 1024
T = TypeVar("T")


class RoutingCache:
    """Routing by namespace, read from the config servers when it is first wanted."""

    def __init__(self, config: Shard) -> None:
        self._config = config
        self._known: dict[str, Routing] = {}
        self._refreshing: dict[str, asyncio.Task[Routing]] = {}
        self._also_read: dict[tuple[str, frozenset[str]], frozenset[str]] = {}

    async def get(self, namespace: str) -> Routing:
        """Where the namespace lives, as far as is known."""
        db, _ = split_namespace(namespace)
        if db in _ON_CONFIG_SERVERS:
            return Routing(namespace, CONFIG, None)
        known = self._known.get(namespace)
        if known is not None and known.primary is not None:
            return known
        return await self.refresh(namespace)

    def known(self, namespace: str) -> Routing | None:
        """Where the namespace lives, if the config servers need not be asked. None of their own databases, too."""
        known = self._known.get(namespace)
        return None if known is None or known.primary is None else known

    async def refresh(self, namespace: str) -> Routing:
        """Ask the config servers for what has changed."""
        task = self._refreshing.get(namespace)
        if task is None:
            task = asyncio.ensure_future(self._read(namespace))
            self._refreshing[namespace] = task
            task.add_done_callback(lambda _: self._refreshing.pop(namespace, None))
        return await asyncio.shield(task)

    async def _read(self, namespace: str) -> Routing:
        known = self._known.get(namespace)
        read = RoutingRead(namespace, known)
        while True:
            answer = await self._config.command(CONFIG, read.request(), repeatable=True)
            try:
                routing = read.take(answer.body)
            except InconsistentChunks:
                if known is None:
                    await asyncio.sleep(0.01)
                known = None
                read = RoutingRead(namespace, None)
                continue
            if routing is not None:
                self._known[namespace] = routing
                return routing

    def read_with(self, db: str, names: frozenset[str]) -> frozenset[str]:
        """What is read of a database where these are read, as far as is known: what views among them stand on, too."""
        return self._also_read.get((db, names), names)

    def also_read(self, db: str, names: frozenset[str], more: Iterable[str]) -> bool:
        """A shard has told that `more` is read besides; whether that is news."""
        known = self.read_with(db, names)
        if known.issuperset(more):
            return False
        if len(self._also_read) >= _MOST_READ:
            self._also_read.clear()
        self._also_read[db, names] = known.union(more)
        return True

    def forget(self, namespace: str | None = None) -> None:
        """Drop what is known of a namespace or of all."""
        if namespace is None:
            self._known.clear()
        else:
            self._known.pop(namespace, None)

    def forget_database(self, db: str) -> None:
        for namespace in [known for known in self._known if split_namespace(known)[0] == db]:
            del self._known[namespace]

    async def routed(self, namespace: str, operation: Callable[[Routing], Awaitable[T]]) -> T:
        """Run an operation by the routing that is known, and again with a fresh one while shards call it stale."""
        for attempt in range(MAX_ATTEMPTS):
            routing = await self.get(namespace)
            try:
                return await operation(routing)
            except CommandError as error:
                self.doubt(namespace, error)
                if error.code not in STALE_CODES or attempt == MAX_ATTEMPTS - 1:
                    raise
            await self.settle(namespace, routing, attempt)
        raise AssertionError("unreachable")

    def doubt(self, namespace: str, error: CommandError) -> None:
        """After an operation failed: a shard that does not answer may have handed over what it is believed to own."""
        if error.code in UNREACHABLE_CODES:
            self.forget(namespace)

    async def settle(self, namespace: str, used: Routing, attempt: int) -> None:
        """After a shard called `used` stale: read the routing anew. When the config servers still say the same, the
        shard and they are about to agree, so wait a moment, longer with each attempt."""
        fresh = await self.refresh(namespace)
        if fresh.version() == used.version() and fresh.primary == used.primary and attempt:
            await asyncio.sleep(min(0.005 * 2**attempt, 0.5))


def version_for(routing: Routing, shard: str) -> ShardVersion | None:
    """What an operation must carry to `shard`; None to the config servers."""
    return None if shard == CONFIG else routing.shard_version(shard)


def is_stale(code: int) -> bool:
    """Whether an error says that the routing was out of date."""
    return code in STALE_CODES
