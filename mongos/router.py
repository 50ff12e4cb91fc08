"""A router: the parts of one `mongos` process. It stores no data; everything here can be read again from the cluster.

Commands reach it by `router_of(context)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from docstore.bson import append_fields
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.concerns import PRIMARY, ReadPreference
from docstore.commands.context import Context
from docstore.commands.declaration import Role
from docstore.commands.gossip import EncodedGossip
from docstore.commands.operations.counters import Counters
from docstore.errors import CommandError
from docstore.js.workers import Workers
from docstore.namespace import check_database_name, split_namespace
from docstore.net.listener import NetworkStatistics
from docstore.net.pool import db_field
from docstore.net.scheduling.scheduler import Scheduler
from docstore.sharding import requests
from docstore.sharding.routing import Routing
from mongos.balancer.autosplit import Autosplit
from mongos.balancer.balancer import Balancer
from mongos.balancer.chunk_commands import ChunkCommands
from mongos.balancer.settings import BalancerSettings
from mongos.greeter import RouterGreeter
from mongos.host_info import HostInfo
from mongos.merge.leftovers import Leftovers
from mongos.merge.remote import RemoteCursor
from mongos.relay.targets import PreparedTargets
from mongos.routing.cache import UNAVAILABLE_CODES, Attempt, RoutingCache, version_for
from mongos.routing.gossip import Gossip
from mongos.routing.requests import ShardReply, versioned
from mongos.routing.scatter import LATE_SECONDS, Scatter
from mongos.routing.shards import Failure, Shard, Shards
from mongos.transactions.registry import RouterTransactions
from mongos.users import RoutedUsers
from mongos.widecolumn.definition_cache import Definitions
from mongos.widecolumn.hints.handoff import Hints

T = TypeVar("T")
MAX_UNAVAILABLE_SECONDS = 5.0
"""How long a request waits for a shard that it can do without."""


class Balancing(NamedTuple):
    """The splitting and moving of chunks."""

    chunk_commands: ChunkCommands
    settings: BalancerSettings
    autosplit: Autosplit
    balancer: Balancer


class ScriptProcesses(NamedTuple):
    """The processes for map-reduce and for scripts in queries, and the directory for what exceeds memory."""

    workers: Workers
    evaluators: Workers
    spill: Path


class RouterProcess(NamedTuple):
    """The process that runs the router."""

    facts: HostInfo
    statistics: Callable[[], NetworkStatistics]
    shutdown: Callable[[], None]


class Router:
    """The parts of a router, and the two things every routed command does: create databases and ask shards."""

    def __init__(
        self, *, shards: Shards, cache: RoutingCache, balancing: Balancing, scripts: ScriptProcesses, gossip: Gossip,
        scheduler: Scheduler, process: RouterProcess,
    ) -> None:  # fmt: skip
        self.shards = shards
        self.shards_outside = shards
        """The shards outside of a request's transaction."""
        self.cache = cache
        self.chunk_commands, self.settings, self.autosplit, self.balancer = balancing
        self.workers, self.evaluators, self.spill = scripts
        self.facts, self.statistics, self.shutdown = process
        self.scheduler = scheduler
        self.clock = scheduler.clock
        self.greeter = RouterGreeter()
        self.counters = Counters()
        self.hints: Hints | None = None
        """Writes at ANY that had no primary."""
        self.cql_address: Mapping[str, Any] | None = None
        """Where it serves the native protocol, as `docstore.sharding.requests.mongos_ping` has it."""
        self.definitions = Definitions()
        """The definitions of keyspaces and CQL tables."""
        self._gossip = gossip
        self.leftovers = Leftovers(shards)
        self.targets = PreparedTargets(cache)
        self.transactions = RouterTransactions(self)
        self.users = RoutedUsers(shards.config, self.clock)
        """The users of the cluster."""

    @property
    def config(self) -> Shard:
        return self.shards.config

    # The dispatcher's host

    def check_write(self) -> None:
        """A router takes every write; the shard's primary decides."""

    def check_read(self, read_preference: ReadPreference) -> None:
        """A router takes every read; the shard's member decides."""

    def cluster_time(self) -> int:
        """Return the latest cluster time heard from a shard or a client, packed; 0 before any."""
        return self._gossip.cluster_time

    def gossip(self) -> EncodedGossip:
        """The latest cluster time in a reply of a shard or a request of a client."""
        return self._gossip.shown

    def observe_cluster_time(self, time: int) -> None:
        """Observe the cluster time of a client or shard: later requests to any shard must not use an older one."""
        self._gossip.observe(time)

    def state_version(self) -> Mapping[str, Any] | None:
        """Routers have no state that drivers follow."""
        return None

    # Operations of routed commands

    async def ensure_database(self, namespace: str) -> None:
        """Create the database before a write to it, if it does not exist."""
        routing = await self.cache.get(namespace)
        if routing.primary is None:
            db, _ = split_namespace(namespace)
            check_database_name(db)
            await self.config.command("admin", requests.create_database(db), repeatable=True)
            await self.cache.refresh(namespace)

    async def ask(
        self, context: Context, routing: Routing, shards: Sequence[str], body: bytes | Callable[[str], bytes], *,
        repeatable: bool = True, unavailable: set[str] | None = None, begun: Scatter | None = None,
    ) -> list[ShardReply]:  # fmt: skip
        """Send the same request to several shards concurrently, each with its shard version.

        With `unavailable`, shards that cannot be reached are added to it instead of an error, and have no reply.
        `begun`: what was sent before; only shards that it has not asked or that failed are asked.
        """

        def request(name: str) -> bytes:
            return versioned(body(name) if callable(body) else body, version_for(routing, name))

        async def one(name: str, failure: Failure | None = None) -> ShardReply:
            shard = await self.shards.of_routing(name)
            timed = request(name)
            if context.max_time_ms and context.deadline is not None:
                remaining_ms = max(int((context.deadline - self.clock()) * 1000), 1)
                timed = append_fields(timed, b"\x10maxTimeMS\0" + remaining_ms.to_bytes(4, "little"))
            send_once = partial(
                shard.command, context.db, timed, read_preference=read_preference, repeatable=repeatable,
                deadline=context.deadline, late=LATE_SECONDS, failure=failure,
            )  # fmt: skip
            if unavailable is None:
                return await send_once()
            try:
                return await send_once(patience=MAX_UNAVAILABLE_SECONDS)
            except CommandError as error:
                if error.code not in UNAVAILABLE_CODES:
                    raise
                # The shard may have handed its chunks over.
                self.cache.doubt(routing.namespace, error)
                unavailable.add(name)
                return ShardReply(name, "", EMPTY_DOCUMENT)

        read_preference = PRIMARY if context.command.role is Role.PRIMARY else context.read_preference
        if begun is None:
            begun = Scatter(self.leftovers.discard_answer)
            if context.deadline is None and not read_preference.secondary_ok:
                database = db_field(context.db)
                for name in shards:
                    shard = self.shards.known(name)
                    if shard is not None:
                        begun.send(shard, append_fields(request(name), database))
        answers = await self.leftovers.answers(shards, begun, one)
        return [answer for answer in answers if answer.shard not in unavailable] if unavailable else answers

    def remotes(self, context: Context, answers: Sequence[ShardReply], batch_size: int | None) -> list[RemoteCursor]:
        """Return the cursors that the shards' answers opened. Errors: ShardNotFound for one that was removed since."""
        options = partial(session_fields, context)
        try:
            return [
                RemoteCursor(
                    self.shards.one_that_answered(answer.shard), answer, batch_size=batch_size, options=options
                )
                for answer in answers
            ]
        except BaseException:
            self.leftovers.discard_answers(answers)
            raise

    def discard(self, remotes: Sequence[RemoteCursor]) -> None:
        """End shards' cursors in the background."""
        self.leftovers.discard(remotes)

    async def routed(
        self, context: Context, operation: Callable[[Routing], Awaitable[T]], first: Attempt[T] | None = None
    ) -> T:
        """Run an operation on the context's namespace with the cached routing; retry if that was stale. `first`: the
        first attempt, which has begun.
        """
        return await self.cache.routed(context.namespace, operation, first)

    def listening_at(self, address: str) -> None:
        """The router's own address, once it is known."""
        self.facts = replace(self.facts, address=address)

    async def stop(self) -> None:
        """Stop background work and close connections."""
        self.leftovers.stop()
        self.transactions.stop()
        await self.workers.close()
        await self.evaluators.close()
        await self.shards.close()


def session_fields(context: Context) -> dict[str, Any]:
    """The session of a request, for further requests on its behalf."""
    lsid = context.body.get("lsid")
    return {} if lsid is None else {"lsid": lsid}


def router_of(context: Context) -> Router:
    """The router that answers this request."""
    return context.services.parts[Router]
