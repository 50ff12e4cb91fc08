"""Reads of the column model through a router: of one row at its owner, of many rows at all of theirs, put together.

What cannot be routed because it is not well-formed goes to the keyspace's shard, which says what is wrong with it.
Reads go to the nearest member of a shard, which asks the others that the consistency level wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import (
    ARRAY,
    Value,
    append_fields,
    array_documents,
    array_value,
    document_from,
    document_to_python,
    documents_array,
    from_python,
    get_field,
)
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import CommandError
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.replies import check_reply_size
from docstore.widecolumn.model.requests import record_range_document, row_keys_of, row_ranges_of
from docstore.widecolumn.model.values import binary_value, row_key_of
from mongos.router import router_of
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.targeting import Target
from mongos.widecolumn.owners import home_of, owner_of, parts_of
from mongos.widecolumn.shard_requests import at_home, at_owner, from_members, prefer_nearest, routed

_ADDED = ("shards", "partitionsRead", "keysExamined", "tombstones")


async def read_keyspace(context: Context, arguments: Arguments) -> Result:
    """A read of definitions."""
    del arguments
    return (await at_home(context, forwarded(context.raw), repeatable=True)).relayed()


async def read_row(context: Context, arguments: Arguments) -> Result:
    """A read of one row."""
    prefer_nearest(context, level_named(arguments["consistency"]))
    key = _key(arguments["key"])

    def owner(routing: Routing) -> Target:
        return Target((home_of(routing),)) if key is None else owner_of(routing, key)

    reading = at_owner(context, forwarded(context.raw), owner)
    return (await from_members(context, level_named(arguments["consistency"]), reading))[0].relayed()


def _key(value: Value) -> bytes | None:
    try:
        return row_key_of(value)
    except CommandError:
        return None


async def read_rows(context: Context, arguments: Arguments) -> Result:
    """A slice of each of many rows, in the order of the request."""
    prefer_nearest(context, level_named(arguments["consistency"]))
    whole = forwarded(context.raw)
    try:
        keys = row_keys_of(arguments["keys"])
    except CommandError:
        keys = []

    async def attempt(routing: Routing) -> bytes:
        groups: dict[str, list[bytes]] = {}
        for key in keys:
            groups.setdefault(owner_of(routing, key).shards[0], []).append(key)
        if len(groups) < 2:
            (answer,) = await router_of(context).ask(context, routing, list(groups) or [home_of(routing)], whole)
            return answer.relayed()
        base = forwarded(context.raw, without=("keys",))

        def body(shard: str) -> bytes:
            _, data = array_value([binary_value(key) for key in groups[shard]])
            return append_fields(base, b"\x04keys\0" + data)

        answers = await router_of(context).ask(context, routing, list(groups), body)
        found: dict[bytes, bytes] = {}
        for answer in answers:
            found.update(zip(groups[answer.shard], _rows(answer), strict=True))
        return joined([found[key] for key in keys], answers)

    return await from_members(context, level_named(arguments["consistency"]), routed(context, attempt))


async def read_ring(context: Context, arguments: Arguments) -> Result:
    """A slice of each row of ranges of the ring, walked shard by shard."""
    prefer_nearest(context, level_named(arguments["consistency"]))
    whole = forwarded(context.raw)
    limit = arguments["count"]

    async def attempt(routing: Routing) -> bytes:
        collection = routing.collection
        if collection is None or collection.partitioner is None or limit <= 0:
            (answer,) = await router_of(context).ask(context, routing, [home_of(routing)], whole)
            return answer.relayed()
        try:
            ranges = row_ranges_of(collection.partitioner, arguments["range"])
        except CommandError:
            (answer,) = await router_of(context).ask(context, routing, [home_of(routing)], whole)
            return answer.relayed()
        base = forwarded(context.raw, without=("range", "count"))
        rows: list[bytes] = []
        answers: list[ShardReply] = []
        for shard, part in parts_of(routing, ranges):
            left = {"count": limit - len(rows), "stretch": RawBSONDocument(record_range_document(part))}
            (answer,) = await router_of(context).ask(context, routing, [shard], forwarded(base, add=left))
            answers.append(answer)
            rows += _rows(answer)
            check_reply_size(sum(map(len, rows)))
            if len(rows) >= limit:
                break
        return joined(rows, answers)

    return await from_members(context, level_named(arguments["consistency"]), routed(context, attempt))


def _rows(answer: ShardReply) -> list[bytes]:
    listed = get_field(answer.body, "rows")
    assert listed is not None, "the reply lists rows"
    return array_documents(listed[1])


def joined(rows: Sequence[bytes], answers: Sequence[ShardReply]) -> bytes:
    """One reply of several: the rows, and what the shards say besides."""
    check_reply_size(sum(map(len, rows)))
    fields: list[tuple[str, int, bytes]] = [("rows", ARRAY, documents_array(rows))]
    warnings = warnings_of(answers)
    if warnings:
        fields.append(("warnings", *from_python(warnings)))
    explained = [document_to_python(found[1]) for answer in answers if (found := get_field(answer.body, "explain"))]
    if explained:
        fields.append(("explain", *from_python(_added(explained, answers))))
    return document_from(fields)


def _added(explained: Sequence[dict[str, Any]], answers: Sequence[ShardReply]) -> dict[str, Any]:
    whole = dict(explained[0])
    whole.update((name, sum(each[name] for each in explained)) for name in _ADDED)
    return {**whole, "shards": len({answer.shard for answer in answers})}


def warnings_of(answers: Sequence[ShardReply]) -> list[str]:
    """The warnings of all shards."""
    found = [get_field(answer.body, "warnings") for answer in answers]
    return [text for value in found if value is not None for text in bson.decode(value[1]).values()]
