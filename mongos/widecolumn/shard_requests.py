"""Requests of the wide-column mode on their way to shards, with versions, tried again while the routing is stale.

One request of a client has one `ShardRequests`, whether it is a plan or a command that is passed on as it came. Reads
go to the members that the client prefers, everything else to primaries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import time
from typing import TypeVar

from docstore.bson import append_fields
from docstore.commands.concerns import PRIMARY, ReadMode, ReadPreference
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.net.topology import Kind
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, Level, members_needed
from docstore.widecolumn.model.errors import STALE_SCHEMA, read_timed_out, unavailable, write_timed_out
from mongos.router import router_of
from mongos.routing.cache import version_for
from mongos.routing.requests import ShardReply, versioned
from mongos.routing.shards import OutcomeUnknown, Shard, each
from mongos.routing.targeting import Target
from mongos.widecolumn.owners import home_of, owner_of

T = TypeVar("T")
_TELLING_SECONDS = 0.1
"""The time before a request's deadline that is reserved for its answer."""
_LATE_SECONDS = 2.0
_FAILOVER_SECONDS = 5.0
_NEAREST = ReadPreference(ReadMode.NEAREST)
_NO_MEMBER = (Code.FailedToSatisfyReadPreference, Code.HostUnreachable, Code.HostNotFound)
_NO_TIME = (Code.NetworkTimeout, Code.MaxTimeMSExpired)


class _Timestamps:
    """Microseconds since 1970, strictly increasing."""

    last = 0

    def next(self) -> int:
        self.last = max(self.last + 1, int(time() * 1_000_000))
        return self.last


TIMESTAMPS = _Timestamps()


class SchemaIsStale(Exception):
    """A shard has another definition of the column family than the plan."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.keyspace, _, self.family = namespace.partition(".")


def nearest(context: Context, level: Level = Level.ONE) -> ReadPreference:
    """Return the read preference of the column model: nearest, unless the client or the level requires another."""
    return _NEAREST if context.read_preference is PRIMARY and level not in SERIAL_LEVELS else context.read_preference


def let_tell(context: Context) -> None:
    """Let a write that runs out of time report its outcome late, before its command waits.

    Under load the time reserved for the report may pass before anything runs. Cutting the write off then would
    neither execute it nor store it as a hint.
    """
    if context.deadline is not None:
        context.progress.deadline = context.deadline + _LATE_SECONDS


class ShardRequests:
    """The requests of one client's request; see the module. `read_preference`: for reads; None for the client's."""

    def __init__(self, context: Context, *, read_preference: ReadPreference | None = None) -> None:
        self.router = router_of(context)
        self.read_preference = context.read_preference if read_preference is None else read_preference
        self._context = context
        self._deadline = context.deadline
        self._failed_shard: Shard | None = None
        """The last one that did not do its part."""

    async def reading(self, level: Level, work: Callable[[], Awaitable[T]]) -> T:
        """Return a read's result. Errors: Unavailable if no suitable member was found, TimedOut if none answered."""
        self._deadline = self._telling_deadline()
        try:
            return await work()
        except CommandError as error:
            if "wcException" in error.extra:
                raise
            if error.code in _NO_TIME:
                raise read_timed_out(level.value, self._members_needed(level), 0) from error
            if error.code in _NO_MEMBER:
                raise unavailable(level.value, self._members_needed(level), 0, write=False) from error
            raise

    async def writing(self, level: Level, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a write, given up when a shard has had no primary for a while.

        Errors: Unavailable; TimedOut if a member may have done its part.
        """
        own, limit = self._telling_deadline(), self.router.clock() + _FAILOVER_SECONDS
        self._deadline = limit if own is None else min(limit, own)
        try:
            return await work()
        except CommandError as error:
            if "wcException" in error.extra:
                raise
            if isinstance(error, OutcomeUnknown):
                raise write_timed_out(level.value, self._members_needed(level), 0, error.message) from error
            if error.code not in (*_NO_MEMBER, *_NO_TIME, Code.NotWritablePrimary):
                raise
            needed, alive = self._members_needed(level), self._members_alive()
            # With enough members alive, the missing one is the primary.
            raise unavailable(level.value, needed, alive if alive < needed else 0, write=True) from error

    def _members_needed(self, level: Level) -> int:
        """Return the number of members that the level asks for, of the shard that failed as this router knows it."""
        if self._failed_shard is None:
            return 1
        schema = self.router.definitions.known(self._context.db)
        declared = 1 if schema is None else schema.keyspace.replication_factor or 1
        return max(members_needed(level, max(declared, len(self._failed_shard.client.topology.data_bearing))), 1)

    def _members_alive(self) -> int:
        """Return the number of members that serve, of the shard that failed as this router knows it."""
        if self._failed_shard is None:
            return 0
        members = self._failed_shard.client.topology.data_bearing
        return sum(member.kind in (Kind.PRIMARY, Kind.SECONDARY) for member in members)

    def _telling_deadline(self) -> float | None:
        deadline = self._context.deadline
        return None if deadline is None else deadline - _TELLING_SECONDS

    async def ask(
        self, routing: Routing, shards: Sequence[str], body: bytes | Callable[[str], bytes], *,
        reading: bool = False, repeatable: bool = True,
    ) -> list[ShardReply]:  # fmt: skip
        """Send the same request to several shards concurrently, on the keyspace of the routing."""
        database = routing.namespace.partition(".")[0]

        async def one(name: str) -> ShardReply:
            shard = await self.router.shards.get(name)
            request = versioned(body(name) if callable(body) else body, version_for(routing, name))
            if self._context.max_time_ms and self._deadline is not None:
                remaining_ms = max(int((self._deadline - self.router.clock()) * 1000), 1)
                request = append_fields(request, b"\x10maxTimeMS\0" + remaining_ms.to_bytes(4, "little"))
            try:
                return await shard.command(
                    database, request, read_preference=self.read_preference if reading else PRIMARY,
                    repeatable=repeatable, deadline=self._deadline,
                )  # fmt: skip
            except CommandError:
                self._failed_shard = shard
                raise

        return await each(shards, one)

    async def at_home(self, namespace: str, body: bytes, *, reading: bool = False, repeatable: bool) -> ShardReply:
        """The answer of the shard that has the keyspace's definitions. Errors: NamespaceNotFound."""

        async def attempt(routing: Routing) -> ShardReply:
            return (await self.ask(routing, [home_of(routing)], body, reading=reading, repeatable=repeatable))[0]

        return await self.routed(namespace, attempt)

    async def read_at_owner(self, namespace: str, key: bytes | None, body: bytes) -> ShardReply:
        """The answer of the shard that has a row. Errors: NamespaceNotFound."""

        async def attempt(routing: Routing) -> ShardReply:
            return (await self.ask(routing, owner_of(routing, key).shards, body, reading=True))[0]

        return await self.routed(namespace, attempt)

    async def write_at_owners(
        self, namespace: str, rows: Sequence[tuple[bytes | None, bytes]], body: Callable[[Sequence[bytes]], bytes], *,
        repeatable: bool = True,
    ) -> list[ShardReply]:  # fmt: skip
        """Send rows, given as (key, encoded write), to their owners. `body` makes the request of one shard's rows.

        Errors: NamespaceNotFound.
        """

        async def attempt(routing: Routing) -> list[ShardReply]:
            groups: dict[str, list[bytes]] = {}
            written: dict[bytes, tuple[Target, int]] = {}
            for key, raw in rows:
                target = owner_of(routing, key)
                groups.setdefault(target.shards[0], []).append(raw)
                if target.chunk is not None:
                    low = target.chunk.min.key
                    written[low] = target, written.get(low, (target, 0))[1] + len(raw)
            answers = await self.ask(routing, list(groups), lambda shard: body(groups[shard]), repeatable=repeatable)
            for target, size in written.values():
                await self._account(routing, target, size)
            return answers

        return await self.routed(namespace, attempt)

    async def _account(self, routing: Routing, target: Target, size: int) -> None:
        """Report the bytes written to a chunk to the autosplit accounting, and check the chunk if it is due."""
        autosplit = self.router.autosplit
        if target.chunk is not None and autosplit.add(routing, target.chunk, size):
            await autosplit.look(routing, target.chunk)

    async def routed(self, namespace: str, attempt: Callable[[Routing], Awaitable[T]]) -> T:
        """`RoutingCache.routed`, which also tries again where a shard does not know the namespace: it may have been
        dropped and made elsewhere since the routing was read. SchemaIsStale ends it.
        """
        cache = self.router.cache

        async def checked(routing: Routing) -> T:
            try:
                return await attempt(routing)
            except CommandError as error:
                if STALE_SCHEMA in error.extra:
                    raise SchemaIsStale(namespace) from error
                if error.code != Code.NamespaceNotFound:
                    raise
                fresh = await cache.refresh(namespace)
                if (fresh.primary, fresh.version()) == (routing.primary, routing.version()):
                    raise
                raise CommandError(Code.StaleConfig, f"{namespace} is elsewhere: {error.message}") from error

        return await cache.routed(namespace, checked)
