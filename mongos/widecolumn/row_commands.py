"""The row commands on a router: each goes unchanged to the owners of its rows, with a timestamp if it writes.

Malformed requests that cannot be routed go to the keyspace's shard, which reports the error. That shard also checks a
batch for several shards as a whole before any of it is applied; then each shard gets its part of each column family.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import (
    INT32,
    Value,
    append_fields,
    array_value,
    document_from,
    documents_array,
    from_python,
)
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import CommandError
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.replies import check_reply_size
from docstore.widecolumn.model.requests import RowRange, partition_keys_of, record_range_document, row_ranges_of
from docstore.widecolumn.model.values import binary_value, partition_key_of
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.shards import each
from mongos.widecolumn.executor import RouterExecutor
from mongos.widecolumn.hints.rows import Keyed, mutations_by_family
from mongos.widecolumn.owners import home_of, owner_of, parts_of
from mongos.widecolumn.replies import joined, rows_of, warnings_of
from mongos.widecolumn.schema_executor import mark_of
from mongos.widecolumn.shard_requests import TIMESTAMPS, nearest

Attempt = Callable[[RouterExecutor, Routing], Awaitable[bytes]]


async def read_row(context: Context, arguments: Arguments) -> Result:
    """Read one row."""
    level = level_named(arguments["consistency"])
    executor = RouterExecutor(context, read_preference=nearest(context, level))
    key, request = _key(arguments["key"]), forwarded(context.raw)
    return (await executor.reading(level, lambda: executor.read_at_owner(context.namespace, key, request))).relayed()


def _key(value: Value) -> bytes | None:
    try:
        return partition_key_of(value)
    except CommandError:
        return None


async def _read(context: Context, arguments: Arguments, attempt: Attempt) -> bytes:
    level = level_named(arguments["consistency"])
    executor = RouterExecutor(context, read_preference=nearest(context, level))
    return await executor.reading(level, lambda: executor.routed(context.namespace, partial(attempt, executor)))


async def read_rows(context: Context, arguments: Arguments) -> Result:
    """Read a slice of each of many rows, in the order of the request."""
    try:
        keys = partition_keys_of(arguments["keys"])
    except CommandError:
        keys = []

    async def attempt(executor: RouterExecutor, routing: Routing) -> bytes:
        groups: dict[str, list[bytes]] = {}
        for key in keys:
            groups.setdefault(owner_of(routing, key).shards[0], []).append(key)
        if len(groups) < 2:
            shards = list(groups) or [home_of(routing)]
            return (await executor.ask(routing, shards, forwarded(context.raw), reading=True))[0].relayed()
        base = forwarded(context.raw, without=("keys",))

        def request(shard: str) -> bytes:
            _, data = array_value([binary_value(key) for key in groups[shard]])
            return append_fields(base, b"\x04keys\0" + data)

        answers = await executor.ask(routing, list(groups), request, reading=True)
        rows_by_key: dict[bytes, bytes] = {}
        for answer in answers:
            rows_by_key.update(zip(groups[answer.shard], rows_of(answer), strict=True))
        return joined([rows_by_key[key] for key in keys], answers)

    return await _read(context, arguments, attempt)


async def read_ring(context: Context, arguments: Arguments) -> Result:
    """Read a slice of each row of ranges of the ring, shard by shard."""
    limit: int = arguments["count"]

    def ranges_of(routing: Routing) -> list[RowRange] | None:
        """Return the ranges; None if one shard has all rows, or has to report an error in the request."""
        collection = routing.collection
        if collection is None or collection.partitioner is None or limit <= 0:
            return None
        try:
            return row_ranges_of(collection.partitioner, arguments["range"])
        except CommandError:
            return None

    async def attempt(executor: RouterExecutor, routing: Routing) -> bytes:
        ranges = ranges_of(routing)
        if ranges is None:
            return (await executor.ask(routing, [home_of(routing)], forwarded(context.raw), reading=True))[0].relayed()
        base = forwarded(context.raw, without=("range", "count"))
        rows: list[bytes] = []
        answers: list[ShardReply] = []
        for shard, part in parts_of(routing, ranges):
            limits = {"count": limit - len(rows), "recordRange": RawBSONDocument(record_range_document(part))}
            answers += await executor.ask(routing, [shard], forwarded(base, add=limits), reading=True)
            rows += rows_of(answers[-1])
            check_reply_size(sum(map(len, rows)))
            if len(rows) >= limit:
                break
        return joined(rows, answers)

    return await _read(context, arguments, attempt)


def _timestamp(arguments: Arguments) -> dict[str, Any]:
    return {} if "timestamp" in arguments else {"timestamp": Int64(TIMESTAMPS.next())}


async def write_row(context: Context, arguments: Arguments) -> Result:
    """Write one row. Errors: Unavailable if its owner has no primary."""
    executor, level = RouterExecutor(context), level_named(arguments["consistency"])
    request = forwarded(context.raw, add=_timestamp(arguments))
    rows = [(_key(arguments["key"]), context.raw)]
    answers = await executor.writing(
        level, lambda: executor.write_at_owners(context.namespace, rows, lambda _: request)
    )
    return answers[0].relayed()


async def write_batch(context: Context, arguments: Arguments) -> Result:
    """Write mutations of many rows. Errors: those of the check of the whole batch; then the first of any shard."""
    executor, level = RouterExecutor(context), level_named(arguments["consistency"])
    mutations: list[bytes] = arguments["mutations"]
    base = forwarded(context.raw, without=("mutations",), add=_timestamp(arguments))
    families, mark = mutations_by_family(mutations), mark_of(context.db)
    request = _with_mutations(base, mutations)
    if families is None:
        answer = await executor.writing(level, lambda: executor.at_home(mark, request, repeatable=True))
        return answer.relayed()

    async def family(name: str) -> list[ShardReply]:
        return await executor.write_at_owners(f"{context.db}.{name}", families[name], partial(_with_mutations, base))

    async def spread() -> list[list[ShardReply]]:
        if not await _on_one_shard(executor, context.db, families):
            await executor.at_home(mark, append_fields(request, b"\x08check\0\x01"), repeatable=True)
        return await each(list(families), family)

    answers = await executor.writing(level, spread)
    fields: list[tuple[str, int, bytes]] = [("n", INT32, len(mutations).to_bytes(4, "little"))]
    warnings = warnings_of(answer for replies in answers for answer in replies)
    if warnings:
        fields.append(("warnings", *from_python(warnings)))
    return document_from(fields)


def _with_mutations(base: bytes, mutations: Sequence[bytes]) -> bytes:
    return append_fields(base, b"\x04mutations\0" + documents_array(mutations))


async def _on_one_shard(executor: RouterExecutor, keyspace: str, families: dict[str, Keyed]) -> bool:
    """True if a single shard checks the whole batch anyway: it has one column family and one owner."""
    if len(families) > 1:
        return False
    ((name, rows),) = families.items()
    routing = await executor.router.cache.get(f"{keyspace}.{name}")
    home_of(routing)
    return len({owner_of(routing, key).shards for key, _ in rows}) == 1
