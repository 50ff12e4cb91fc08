"""The router's cache of the routing of collections, which may be out of date.

The router is optimistic: it uses the cached routing until a shard answers StaleConfig, then refreshes that one
collection and tries again. Ownership changes only on the config servers, and shards check the version of every routed
operation. A stale entry therefore costs a round trip, never a wrong answer.

Invariants:

- a namespace's routing is only ever replaced by one read later from the config servers;
- concurrent refreshes of one namespace share one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.chunks import InconsistentChunks
from docstore.sharding.routing import Routing, RoutingRead
from docstore.sharding.version import STALE_CODES, ShardVersion
from mongos.limits import MAX_READ_NAMESPACES
from mongos.routing.shards import CONFIG, Shard

MAX_ATTEMPTS = 30
UNREACHABLE_CODES = frozenset((Code.FailedToSatisfyReadPreference, Code.HostUnreachable, Code.HostNotFound))
UNAVAILABLE_CODES = UNREACHABLE_CODES | STATE_CHANGE_CODES | {Code.NetworkTimeout}
"""Codes of a shard without a member that serves the request."""
_ON_CONFIG_SERVERS = frozenset(("admin", "config"))
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt(Generic[T]):
    """An attempt of an operation that has begun under this routing. `finish` returns its result."""

    routing: Routing
    finish: Callable[[], Awaitable[T]]


class RoutingCache:
    """Routing by namespace, read from the config servers on first use."""

    def __init__(self, config: Shard) -> None:
        self._config = config
        self._known: dict[str, Routing] = {}
        self._refreshing: dict[str, asyncio.Task[Routing]] = {}
        self._also_read: dict[tuple[str, frozenset[str]], frozenset[str]] = {}

    async def get(self, namespace: str) -> Routing:
        """Return the cached routing of the namespace; read it if there is none."""
        db, _ = split_namespace(namespace)
        if db in _ON_CONFIG_SERVERS:
            return Routing(namespace, CONFIG, None)
        routing = self._known.get(namespace)
        if routing is not None and routing.primary is not None:
            return routing
        return await self.refresh(namespace)

    def known(self, namespace: str) -> Routing | None:
        """Return the cached routing; None if there is none, and for the config servers' own databases."""
        routing = self._known.get(namespace)
        return None if routing is None or routing.primary is None else routing

    async def refresh(self, namespace: str) -> Routing:
        """Ask the config servers for changes of the routing."""
        task = self._refreshing.get(namespace)
        if task is None:
            task = asyncio.ensure_future(self._read(namespace))
            self._refreshing[namespace] = task
            task.add_done_callback(lambda _: self._refreshing.pop(namespace, None))
        return await asyncio.shield(task)

    async def _read(self, namespace: str) -> Routing:
        base = self._known.get(namespace)
        read = RoutingRead(namespace, base)
        while True:
            answer = await self._config.command(CONFIG, read.request(), repeatable=True)
            try:
                routing = read.take(answer.body)
            except InconsistentChunks:
                if base is None:
                    await asyncio.sleep(0.01)
                base = None
                read = RoutingRead(namespace, None)
                continue
            if routing is not None:
                self._known[namespace] = routing
                return routing

    def read_with(self, db: str, names: frozenset[str]) -> frozenset[str]:
        """Return the names that a read of `names` in the database involves, including the known sources of views."""
        return self._also_read.get((db, names), names)

    def also_read(self, db: str, names: frozenset[str], more: Iterable[str]) -> bool:
        """Note that reading `names` also involves `more`, as a shard has reported; return whether that is new."""
        all_names = self.read_with(db, names)
        if all_names.issuperset(more):
            return False
        if len(self._also_read) >= MAX_READ_NAMESPACES:
            self._also_read.clear()
        self._also_read[db, names] = all_names.union(more)
        return True

    def forget(self, namespace: str | None = None) -> None:
        """Drop the cached routing of a namespace or of all."""
        if namespace is None:
            self._known.clear()
        else:
            self._known.pop(namespace, None)

    def forget_database(self, db: str) -> None:
        for namespace in [key for key in self._known if split_namespace(key)[0] == db]:
            del self._known[namespace]

    async def routed(
        self, namespace: str, operation: Callable[[Routing], Awaitable[T]], first: Attempt[T] | None = None
    ) -> T:
        """Run an operation with the cached routing; retry with a fresh one while shards call it stale. `first`: the
        first attempt, which has begun.
        """
        for attempt in range(MAX_ATTEMPTS):
            routing = await self.get(namespace) if first is None else first.routing
            try:
                return await (operation(routing) if first is None else first.finish())
            except CommandError as error:
                self.doubt(namespace, error)
                if error.code not in STALE_CODES or attempt == MAX_ATTEMPTS - 1:
                    raise
            first = None
            await self.settle(namespace, routing, attempt)
        raise AssertionError("unreachable")

    def doubt(self, namespace: str, error: CommandError) -> None:
        """Handle a failed operation: a shard that does not answer may have handed over its chunks, so forget the
        routing.
        """
        if error.code in UNREACHABLE_CODES:
            self.forget(namespace)

    async def settle(self, namespace: str, used: Routing, attempt: int) -> None:
        """Read the routing anew after a shard called `used` stale. If the config servers still report the same, wait
        a moment, longer with each attempt: the shard and they are about to agree.
        """
        fresh = await self.refresh(namespace)
        if fresh.version() == used.version() and fresh.primary == used.primary and attempt:
            await asyncio.sleep(min(0.005 * 2**attempt, 0.5))


def version_for(routing: Routing, shard: str) -> ShardVersion | None:
    """Return the shard version that an operation on `shard` must carry; None for the config servers."""
    return None if shard == CONFIG else routing.shard_version(shard)


def is_stale(code: int) -> bool:
    """True if the code says that the routing was out of date."""
    return code in STALE_CODES
