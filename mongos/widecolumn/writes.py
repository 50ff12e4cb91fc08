"""Writes of the column model through a router: to the owners of their rows, with a timestamp that they get here.

So sending one again after a failover changes nothing. A batch that concerns several shards is judged as a whole by the
shard that has the definitions before any of it is applied; then each shard gets its part of each column family.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from bson.int64 import Int64

from docstore.bson import INT32, STRING, append_fields, document_from, documents_array, from_python, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import Code, CommandError
from docstore.query.value.values import text_of
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import Level, level_named
from docstore.widecolumn.model.errors import unavailable, write_timed_out
from docstore.widecolumn.model.values import row_key_of
from mongos.router import Router, router_of
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.shards import OutcomeUnknown, each
from mongos.routing.targeting import Target
from mongos.widecolumn.owners import home_of, owner_of
from mongos.widecolumn.reads import warnings_of
from mongos.widecolumn.shard_requests import TELLING_SECONDS, TIMESTAMPS, at_home, at_owner, by_routing

_FAILOVER_SECONDS = 5.0
_NO_PRIMARY = (
    Code.FailedToSatisfyReadPreference, Code.HostUnreachable, Code.HostNotFound, Code.NetworkTimeout,
    Code.MaxTimeMSExpired, Code.NotWritablePrimary,
)  # fmt: skip
T = TypeVar("T")


async def write_row(context: Context, arguments: Arguments) -> Result:
    """A write of one row, to its owner. Errors: Unavailable when that has no primary."""
    level = level_named(arguments["consistency"])
    body = forwarded(context.raw, add=_timestamp(arguments))
    try:
        key = row_key_of(arguments["key"])
    except CommandError:
        return (await to_primaries(context, level, lambda: at_home(context, body, repeatable=True))).relayed()
    answer, routing, target = await to_primaries(
        context, level, lambda: at_owner(context, body, lambda routing: owner_of(routing, key))
    )
    await account(router_of(context), routing, target, len(context.raw))
    return answer.relayed()


def _timestamp(arguments: Arguments) -> dict[str, Any]:
    return {} if "timestamp" in arguments else {"timestamp": Int64(TIMESTAMPS.next())}


async def to_primaries(context: Context, level: Level, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The work, given up when a shard has had no primary for a while. Errors: Unavailable; TimedOut where a member may
    have done its part.
    """
    router = router_of(context)
    asked = context.deadline
    limit = router.clock() + _FAILOVER_SECONDS
    context.deadline = limit if asked is None else min(limit, asked - TELLING_SECONDS)
    try:
        return await work()
    except CommandError as error:
        if "wcException" in error.extra:
            raise
        if isinstance(error, OutcomeUnknown):
            raise write_timed_out(level.value, 1, 0, error.message) from error
        if error.code not in _NO_PRIMARY:
            raise
        raise unavailable(level.value, 1, 0, write=True) from error


async def account(router: Router, routing: Routing, target: Target, size: int) -> None:
    """Tell the autosplit accounting of bytes that were written to a chunk, and have it look where it is due."""
    if target.chunk is not None and router.autosplit.add(routing, target.chunk, size):
        await router.autosplit.look(routing, target.chunk)


async def write_batch(context: Context, arguments: Arguments) -> Result:
    """Mutations of many rows. Errors: those of the judgement of the whole; then the first that a shard gives."""
    level = level_named(arguments["consistency"])
    mutations: list[bytes] = arguments["mutations"]
    base = forwarded(context.raw, without=("mutations",), add=_timestamp(arguments))
    whole = _with_mutations(base, mutations)
    families = _families(mutations)
    if families is None:
        return (await to_primaries(context, level, lambda: at_home(context, whole, repeatable=True))).relayed()
    return await to_primaries(context, level, lambda: _spread(context, base, whole, families))


Placed = list[tuple[bytes, bytes]]
"""(row key, mutation)"""


def _families(mutations: list[bytes]) -> dict[str, Placed] | None:
    """The mutations by column family; None where one of them does not say where it belongs, for a shard to refuse."""
    found: dict[str, Placed] = {}
    for raw in mutations:
        family, key = get_field(raw, "columnFamily"), get_field(raw, "key")
        if family is None or family[0] != STRING or key is None:
            return None
        try:
            found.setdefault(text_of(family), []).append((row_key_of(key), raw))
        except CommandError:
            return None
    return found or None


def _with_mutations(base: bytes, mutations: list[bytes]) -> bytes:
    return append_fields(base, b"\x04mutations\0" + documents_array(mutations))


async def _spread(context: Context, base: bytes, whole: bytes, families: dict[str, Placed]) -> bytes:
    router = router_of(context)
    if not await _on_one_shard(context, families):
        await at_home(context, append_fields(whole, b"\x08check\0\x01"), repeatable=True)

    async def family(name: str) -> list[ShardReply]:
        async def attempt(routing: Routing) -> list[ShardReply]:
            return await _send(context, routing, base, families[name])

        return await by_routing(router, f"{context.db}.{name}", attempt)

    answers = [answer for found in await each(list(families), family) for answer in found]
    count = sum(map(len, families.values()))
    fields: list[tuple[str, int, bytes]] = [("n", INT32, count.to_bytes(4, "little"))]
    warnings = warnings_of(answers)
    if warnings:
        fields.append(("warnings", *from_python(warnings)))
    return document_from(fields)


async def _on_one_shard(context: Context, families: dict[str, Placed]) -> bool:
    """Whether one shard judges the batch as a whole anyhow: it is of one column family and has one owner."""
    if len(families) > 1:
        return False
    (name,) = families
    routing = await router_of(context).cache.get(f"{context.db}.{name}")
    home_of(routing)
    return len({owner_of(routing, key).shards for key, _ in families[name]}) == 1


async def _send(context: Context, routing: Routing, base: bytes, placed: Placed) -> list[ShardReply]:
    router = router_of(context)
    groups: dict[str, list[bytes]] = {}
    written: dict[bytes, tuple[Target, int]] = {}
    for key, raw in placed:
        target = owner_of(routing, key)
        groups.setdefault(target.shards[0], []).append(raw)
        if target.chunk is not None:
            low = target.chunk.min.key
            written[low] = target, written.get(low, (target, 0))[1] + len(raw)
    answers = await router.ask(context, routing, list(groups), lambda shard: _with_mutations(base, groups[shard]))
    for target, size in written.values():
        await account(router, routing, target, size)
    return answers
