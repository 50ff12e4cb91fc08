"""Writes of the column model that have no primary, at ANY and ZERO: from the client's request to a hint.

At ANY the hint is the acknowledgement. At ZERO nothing is promised: the write is kept if it can be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bson.int64 import Int64

from docstore.bson import NULL, UNDEFINED, append_fields, document_to_python, documents_array
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import CommandError
from docstore.widecolumn.model.consistency import Level, level_named
from docstore.widecolumn.model.errors import unavailable
from mongos.router import Router, router_of
from mongos.routing.requests import forwarded
from mongos.widecolumn.shard_requests import TIMESTAMPS, let_tell

Write = Callable[[Context, Arguments], Awaitable[Result]]


def hinted(write: Write) -> Write:
    """The write, kept as a hint where it is at ANY or ZERO and no primary is there. Errors: those of the write."""

    def run(context: Context, arguments: Arguments) -> Awaitable[Result]:
        let_tell(context)
        return carried_out(context, arguments)

    async def carried_out(context: Context, arguments: Arguments) -> Result:
        try:
            return await write(context, arguments)
        except CommandError as error:
            level = level_named(arguments["consistency"])
            if not can_wait(error, level):
                raise
            return await _keep_request(context, arguments, level)

    return run


def can_wait(error: CommandError, level: Level) -> bool:
    """Whether a write that was refused so may become a hint."""
    return error.extra.get("wcException") == "UnavailableException" and level in (Level.ANY, Level.ZERO)


async def keep(router: Router, keyspace: str, command: bytes, level: Level) -> bool:
    """Keep a write as a hint; whether it is one. Errors: Unavailable at ANY, which promises that."""
    try:
        if router.hints is None:
            why = "this router keeps no hints (see --wideColumnHintsPath)"
            raise unavailable(level.value, 1, 0, write=True, why=why)
        await router.hints.keep(keyspace, command)
    except CommandError:
        if level is Level.ANY:
            raise
        return False
    return True


async def _keep_request(context: Context, arguments: Arguments, level: Level) -> dict[str, Any]:
    """Keep the request as a hint; the reply says whether it is one."""
    add: dict[str, Any] = {"consistency": Level.ONE.value}
    given = arguments["timestamp"]
    if given is None or given[0] in (NULL, UNDEFINED):
        add["timestamp"] = Int64(TIMESTAMPS.next())
    body = forwarded(context.raw, without=("lsid", "txnNumber", "maxTimeMS", "mutations", "$readPreference"), add=add)
    batch = context.command.name == "wcBatchMutate"
    if batch:
        body = append_fields(body, b"\x04mutations\0" + documents_array(arguments["mutations"]))
    written = document_to_python(body)["timestamp"]
    reply: dict[str, Any] = {"n": len(arguments["mutations"])} if batch else {"timestamp": Int64(written)}
    return {**reply, "hinted": True} if await keep(router_of(context), context.db, body, level) else reply
