"""Requests of the wide-column mode on their way to shards, with versions, tried again while the routing is stale."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import time
from typing import TypeVar

from docstore.commands.concerns import PRIMARY, ReadMode, ReadPreference
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, Level
from docstore.widecolumn.model.errors import read_timed_out, unavailable
from mongos.router import Router, router_of
from mongos.routing.requests import ShardReply
from mongos.routing.targeting import Target
from mongos.widecolumn.owners import home_of

T = TypeVar("T")
TELLING_SECONDS = 0.1
"""So much before a request's own time is over its answer is made, so that there is time to say what is known."""
_NEAREST = ReadPreference(ReadMode.NEAREST)


class _Timestamps:
    """Microseconds since 1970, each above the one before."""

    last = 0

    def next(self) -> int:
        self.last = max(self.last + 1, int(time() * 1_000_000))
        return self.last


TIMESTAMPS = _Timestamps()


def prefer_nearest(context: Context, level: Level = Level.ONE) -> None:
    """Reads go to the nearest member, unless the client or the level says otherwise."""
    if context.read_preference is PRIMARY and level not in SERIAL_LEVELS:
        context.read_preference = _NEAREST


async def from_members(context: Context, level: Level, work: Awaitable[T]) -> T:
    """What a read gives. Errors: Unavailable where no member that may answer was found, TimedOut where none did."""
    if context.deadline is not None:
        context.deadline -= TELLING_SECONDS
    try:
        return await work
    except CommandError as error:
        if "wcException" in error.extra:
            raise
        if error.code in (Code.NetworkTimeout, Code.MaxTimeMSExpired):
            raise read_timed_out(level.value, 1, 0) from error
        if error.code in (Code.FailedToSatisfyReadPreference, Code.HostUnreachable, Code.HostNotFound):
            raise unavailable(level.value, 1, 0, write=False) from error
        raise


def keyspace_routed(context: Context) -> None:
    """Route the request by its keyspace where it names no column family."""
    if not context.namespace:
        context.namespace = f"{context.db}.system.keyspace"


async def at_home(context: Context, body: bytes, *, repeatable: bool) -> ShardReply:
    """The answer of the shard that has the keyspace's definitions. Errors: NamespaceNotFound."""
    return (await at_owner(context, body, lambda routing: Target((home_of(routing),)), repeatable=repeatable))[0]


async def at_owner(
    context: Context, body: bytes, owner: Callable[[Routing], Target], *, repeatable: bool = True
) -> tuple[ShardReply, Routing, Target]:
    """The answer of the one shard that `owner` names, and by what it was found. Errors: NamespaceNotFound."""
    router = router_of(context)

    async def attempt(routing: Routing) -> tuple[ShardReply, Routing, Target]:
        target = owner(routing)
        (answer,) = await router.ask(context, routing, target.shards, body, repeatable=repeatable)
        return answer, routing, target

    return await routed(context, attempt)


async def routed(context: Context, attempt: Callable[[Routing], Awaitable[T]]) -> T:
    """`by_routing`, by the keyspace where the request names no column family."""
    keyspace_routed(context)
    return await by_routing(router_of(context), context.namespace, attempt)


async def by_routing(router: Router, namespace: str, attempt: Callable[[Routing], Awaitable[T]]) -> T:
    """`RoutingCache.routed`, which also tries again where a shard does not know the namespace: it may have been dropped
    and made elsewhere since the routing was read.
    """

    async def checked(routing: Routing) -> T:
        try:
            return await attempt(routing)
        except CommandError as error:
            if error.code != Code.NamespaceNotFound:
                raise
            fresh = await router.cache.refresh(namespace)
            if (fresh.primary, fresh.version()) == (routing.primary, routing.version()):
                raise
            raise CommandError(Code.StaleConfig, f"{namespace} is elsewhere: {error.message}") from error

    return await router.cache.routed(namespace, checked)
