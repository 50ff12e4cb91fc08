"""`fsyncUnlock`: release one lock of fsync on every shard."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import FSYNC_UNLOCK
from docstore.errors import NO_CODE, CommandError
from mongos.router import router_of
from mongos.routing.broadcast import longest_lock, on_each
from mongos.routing.requests import forwarded


async def run(context: Context, _arguments: Arguments) -> dict[str, Any]:
    """Return the greatest lock count of the shards; one that has a new primary since may have none already.

    Errors: that of a shard that does not answer, after the others; that no shard is locked.
    """
    shards = await router_of(context).shards.all()
    body = forwarded(context.raw)
    replies, failures = await on_each(shards, body)
    for failure in failures:
        if not replies or not isinstance(failure, CommandError) or failure.code != NO_CODE:
            raise failure
    return longest_lock(replies)


COMMAND = FSYNC_UNLOCK.command(run)
