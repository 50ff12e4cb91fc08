"""Writes of the column model that have no primary, at ANY and ZERO: from the client's request to a hint.

At ANY the hint is the acknowledgement. At ZERO nothing is promised: the write is kept if it can be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import NULL, UNDEFINED, append_fields, documents_array
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import CommandError
from docstore.wide.consistency import Level, level_named
from docstore.wide.errors import unavailable
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.wide.asking import TIMESTAMPS

Write = Callable[[Context, Arguments], Awaitable[Result]]


def hinted(write: Write) -> Write:
    """The write, kept as a hint where it is at ANY or ZERO and no primary is there. Errors: those of the write."""

    async def run(context: Context, arguments: Arguments) -> Result:
        try:
            return await write(context, arguments)
        except CommandError as error:
            level = level_named(arguments["consistency"])
            if error.extra.get("wcException") != "UnavailableException" or level not in (Level.ANY, Level.ZERO):
                raise
            return await _keep(context, arguments, promised=level is Level.ANY)

    return run


async def _keep(context: Context, arguments: Arguments, *, promised: bool) -> dict[str, Any]:
    """Keep the request as a hint; the reply says that it is one. Errors: Unavailable where that is `promised`."""
    add: dict[str, Any] = {"consistency": Level.ONE.value}
    given = arguments["timestamp"]
    if given is None or given[0] in (NULL, UNDEFINED):
        add["timestamp"] = Int64(TIMESTAMPS.next())
    body = forwarded(context.raw, without=("lsid", "txnNumber", "maxTimeMS", "mutations", "$readPreference"), add=add)
    batch = context.command.name == "wcBatchMutate"
    if batch:
        body = append_fields(body, b"\x04mutations\0" + documents_array(arguments["mutations"]))
    written = bson.decode(body)["timestamp"]
    reply: dict[str, Any] = {"n": len(arguments["mutations"])} if batch else {"timestamp": Int64(written)}
    hints = router_of(context).hints
    try:
        if hints is None:
            raise unavailable(
                Level.ANY.value, 1, 0, write=True, why="this router keeps no hints (see --wideColumnHintsPath)"
            )
        await hints.keep(context.db, body)
    except CommandError:
        if promised:
            raise
        return reply
    return {**reply, "hinted": True}
