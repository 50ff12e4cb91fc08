"""The shards as the router reaches them: names, replica sets, and one command to one of them.

A command is sent again only where that is safe: the member said that it did not do it (not primary), or doing it twice
is the same as once (reads, retryable writes). Anything else with an unknown outcome goes back to the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import bson
from bson.int64 import Int64

from docstore.bson import append_fields
from docstore.commands.concerns import PRIMARY, ReadPreference
from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.net import NetworkError, Pool, ReplicaSetClient
from docstore.net.link import Answered, Link
from docstore.net.replica_set_client import NOT_DONE_CODES
from docstore.optime import unpack_timestamp
from mongos.routing.gossip import Gossip
from mongos.routing.requests import ShardReply

CONFIG = "config"
"""The name under which the config servers count as a shard: they hold the databases admin and config."""
FAILOVER_SECONDS = 20.0
REQUEST_SECONDS = 3600.0
_END_SECONDS = 10.0
_AS_OF_SECONDS = 10.0
T = TypeVar("T")
U = TypeVar("U")


_UNANSWERED = STATE_CHANGE_CODES | {
    Code.FailedToSatisfyReadPreference,
    Code.HostUnreachable,
    Code.HostNotFound,
    Code.NetworkTimeout,
    Code.MaxTimeMSExpired,
}


class OutcomeUnknown(CommandError):
    """A command that a member may have carried out, without confirming it."""


class Failure(NamedTuple):
    """The failure of a command that was sent to a member."""

    address: str
    error: NetworkError | CommandError


class Shard:
    """One shard, or the config servers."""

    def __init__(
        self, name: str, host: str, client: ReplicaSetClient, pool: Pool, gossip: Gossip, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self.host = host
        self.client = client
        self._pool = pool
        self._gossip = gossip
        self._clock = clock

    def links(self) -> dict[str, dict[str, int]]:
        """The router's connections to all processes, which share one pool; as `Pool.statistics`."""
        return self._pool.statistics()

    def now(self) -> float:
        """Return the seconds of the clock for deadlines."""
        return self._clock()

    async def command(
        self,
        db: str,
        body: bytes | Mapping[str, Any],
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        read_preference: ReadPreference = PRIMARY,
        repeatable: bool = False,
        deadline: float | None = None,
        late: float = 0.0,
        failure: Failure | None = None,
        patience: float = FAILOVER_SECONDS,
    ) -> ShardReply:
        """Send one command to a member for the read preference.

        `repeatable`: the command is idempotent. `late`: seconds after the deadline in which an answer is still
        accepted. `failure`: that of an earlier attempt by `send`. `patience`: seconds in which there must be a member
        that takes the command.

        Errors: CommandError as the shard gave it; HostUnreachable, FailedToSatisfyReadPreference, MaxTimeMSExpired;
        as OutcomeUnknown if a member may have executed it.
        """
        if read_preference.secondary_ok:
            # A member that is not primary serves the read only if the request itself allows it.
            body = with_preference(body, read_preference)
        sent = False
        give_up = self._clock() + patience
        if deadline is not None:
            give_up = min(give_up, deadline)
        while True:
            if failure is None:
                address = ""
                try:
                    address = await self.client.select(read_preference, timeout=max(give_up - self._clock(), 0.001))
                    raw = await self.at(address, db, body, sequences=sequences, deadline=deadline, late=late)
                except (NetworkError, CommandError) as error:
                    failure = Failure(address, error)
                else:
                    return ShardReply(self.name, address, raw)
            (address, failed), failure = failure, None
            if isinstance(failed, NetworkError):
                sent = sent or failed.sent
                self.client.suspect(address)
                if not (repeatable or not failed.sent) or self._clock() >= give_up:
                    raise told(unreachable(self.name, address, failed), sent) from failed
            elif failed.code not in STATE_CHANGE_CODES:
                raise told(failed, sent) from failed.__cause__
            else:
                sent = sent or failed.code not in NOT_DONE_CODES
                self.client.suspect(address)
                if self._clock() >= give_up or not (repeatable or failed.code in NOT_DONE_CODES):
                    raise told(failed, sent) from failed.__cause__
                await asyncio.sleep(0.02)

    async def at(
        self,
        address: str,
        db: str,
        body: bytes | Mapping[str, Any],
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        deadline: float | None = None,
        late: float = 0.0,
    ) -> bytes:
        """Send one command to one member; its cursors live there."""
        seconds = REQUEST_SECONDS if deadline is None else deadline - self._clock()
        if seconds <= 0:
            raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
        reply = await self._pool.command(address, db, body, sequences=sequences, timeout=seconds + late)
        self.hear(reply)
        return reply

    def hear(self, reply: bytes) -> None:
        """Observe the cluster time of a reply."""
        self._gossip.hear(reply)

    def send(
        self,
        body: bytes,
        answered: Answered,
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        before: object = None,
    ) -> tuple[str, Link] | None:
        """Send a request that has its `$db` to the primary, over a connection that is idle: (its address, the
        connection); None where the primary is not known or no connection is idle, and nothing was sent.

        `answered` and `before` as in `Pool.send`.
        """
        address = self.client.known_primary
        if address is None:
            return None
        link = self._pool.send(address, body, answered, sequences=sequences, timeout=REQUEST_SECONDS, before=before)
        return None if link is None else (address, link)

    def leads(self, address: str) -> bool:
        """True if that member is the primary that `send` uses, as far as the router knows."""
        return self.client.known_primary == address

    async def end_cursor(self, address: str, db: str, collection: str, cursor_id: int) -> None:
        """End a cursor that lives on a member. Errors: NetworkError, CommandError."""
        command = {"killCursors": collection, "cursors": [Int64(cursor_id)]}
        await self.at(address, db, command, deadline=self._clock() + _END_SECONDS)


def with_preference(body: bytes | Mapping[str, Any], read_preference: ReadPreference) -> bytes:
    """A request that says which members may serve it."""
    raw = body if isinstance(body, bytes) else bson.encode(body)
    return append_fields(raw, b"\x03$readPreference\0" + bson.encode(read_preference.document()))


def told(error: CommandError, sent: bool) -> CommandError:
    """Return the error, as OutcomeUnknown if an earlier attempt may have arrived."""
    if not sent or error.code not in _UNANSWERED:
        return error
    return OutcomeUnknown(error.code, error.message, extra=error.extra, labels=error.labels)


def unreachable(shard: str, address: str, error: NetworkError) -> CommandError:
    """The error that a client gets when a shard's member did not answer; drivers may retry retryable operations."""
    return CommandError(error.code, f"no answer from {address} of {shard}: {error}")


async def each(items: Iterable[U], work: Callable[[U], Awaitable[T]]) -> list[T]:
    """Do the work for all items concurrently. When all have ended, raises the first error in item order."""
    results = await asyncio.gather(*(work(item) for item in items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


class Shards:
    """The registry of shards, read from config.shards; unknown names are looked up again once.

    Invariant: all shards added by the cluster time of the last `as_of` are known.
    """

    def __init__(self, config: Shard, connect: Callable[[str, str], Shard], gossip: Gossip) -> None:
        """`connect(name, host)` makes a shard of a config.shards record; `host` is "set/host:port,..."."""
        self.config = config
        self._connect = connect
        self._gossip = gossip
        self._shards: dict[str, Shard] = {}
        self._draining: set[str] = set()
        self._as_of = 0
        self._reading: asyncio.Task[None] | None = None

    async def refresh(self, after: int = 0, deadline: float | None = None) -> None:
        """Read config.shards, as of the packed cluster time `after` or later; connections to shards that are still
        there are kept.
        """
        command: dict[str, Any] = {"find": "shards", "readConcern": {"level": "majority"}, "batchSize": 1000}
        if after:
            time = unpack_timestamp(after)
            command["readConcern"] |= {"afterClusterTime": time}
            command["$clusterTime"] = {"clusterTime": time, "signature": {"hash": bytes(20), "keyId": Int64(0)}}
        answer = await self.config.command(CONFIG, command, repeatable=True, deadline=deadline)
        rows = answer.decoded()["cursor"]["firstBatch"]
        self._draining = {row["_id"] for row in rows if row.get("draining", False)}
        fresh: dict[str, Shard] = {}
        for row in rows:
            cached_shard = self._shards.pop(row["_id"], None)
            fresh[row["_id"]] = (
                cached_shard
                if cached_shard is not None and cached_shard.host == row["host"]
                else self._connect(row["_id"], row["host"])
            )
        old_shards, self._shards = self._shards, fresh
        for shard in old_shards.values():
            await shard.client.close()

    async def get(self, name: str) -> Shard:
        """A shard by name. Errors: ShardNotFound."""
        if name == CONFIG:
            return self.config
        if name not in self._shards:
            await self.refresh()
        try:
            return self._shards[name]
        except KeyError:
            raise CommandError(Code.ShardNotFound, f"Shard {name} not found") from None

    async def of_routing(self, name: str) -> Shard:
        """Return a shard that a routing names. Errors: StaleConfig if it was removed, since the routing is older."""
        try:
            return await self.get(name)
        except CommandError as error:
            if error.code != Code.ShardNotFound:
                raise
            raise CommandError(Code.StaleConfig, f"the routing names the shard {name}, which was removed") from None

    def one_that_answered(self, name: str) -> Shard:
        """Return a shard by name that has answered. Errors: ShardNotFound if it was removed since."""
        shard = self.config if name == CONFIG else self._shards.get(name)
        if shard is None:
            raise CommandError(Code.ShardNotFound, f"Shard {name} not found")
        return shard

    def known(self, name: str) -> Shard | None:
        """Return a shard by name if it is cached."""
        return self._shards.get(name)

    async def all(self) -> list[Shard]:
        """Every shard, by name."""
        await self.refresh()
        return [self._shards[name] for name in sorted(self._shards)]

    async def as_of(self, time: int) -> list[Shard]:
        """Return all shards added by that packed cluster time, and perhaps others, by name.

        The config servers are asked only about later times than before, once for all waiting callers. Errors:
        HostUnreachable, MaxTimeMSExpired if they have no primary with a majority.
        """
        while time > self._as_of:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(self._read_as_of(max(time, self._gossip.cluster_time)))
                self._reading.add_done_callback(lambda read: read.cancelled() or read.exception())
            await asyncio.shield(self._reading)
        return [self._shards[name] for name in sorted(self._shards)]

    async def _read_as_of(self, time: int) -> None:
        await self.refresh(time, self.config.now() + _AS_OF_SECONDS)
        self._as_of = max(self._as_of, time)

    async def receivers(self) -> list[str]:
        """Return the names of the shards that accept chunks: all but draining ones."""
        await self.refresh()
        return sorted(self._shards.keys() - self._draining)

    async def close(self) -> None:
        for shard in self._shards.values():
            await shard.client.close()
