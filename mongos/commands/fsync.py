"""`fsync`: every shard makes its writes durable; with `lock`, all block writes until fsyncUnlock, or none does."""

from __future__ import annotations

import asyncio
from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import FSYNC
from mongos.router import router_of
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
    results = await asyncio.gather(*(shard.command("admin", body) for shard in shards), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        locked = [shard for shard, result in zip(shards, results, strict=True) if not isinstance(result, BaseException)]
        unlock = {"fsyncUnlock": 1}
        await asyncio.gather(*(shard.command("admin", unlock) for shard in locked), return_exceptions=True)
        raise failures[0]
    replies = {result.shard: result.decoded() for result in results if not isinstance(result, BaseException)}
    longest = max(replies.values(), key=lambda reply: reply["lockCount"], default={})
    return {**longest, "all": replies}


COMMAND = FSYNC.command(run)
