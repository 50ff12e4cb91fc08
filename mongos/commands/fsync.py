"""`fsync`: every shard makes its writes durable; with `lock`, all block writes until fsyncUnlock, or none does."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import FSYNC
from mongos.router import router_of
from mongos.routing.broadcast import longest_lock, on_each
from mongos.routing.requests import forwarded
from mongos.routing.shards import Shard, each


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shards = await router_of(context).shards.all()
    body = forwarded(context.raw)
    if arguments["lock"]:
        return await _lock(shards, body)
    answers = await each(shards, lambda shard: shard.command("admin", body, repeatable=True))
    replies = {answer.shard: answer.decoded() for answer in answers}
    return {"numFiles": sum(reply["numFiles"] for reply in replies.values()), "all": replies}


async def _lock(shards: list[Shard], body: bytes) -> dict[str, Any]:
    """Lock all shards. Errors: the first of a shard that is not locked; then the others are unlocked again."""
    replies, failures = await on_each(shards, body)
    if failures:
        await on_each([shard for shard in shards if shard.name in replies], {"fsyncUnlock": 1})
        raise failures[0]
    return longest_lock(replies)


COMMAND = FSYNC.command(run)
