"""`validate`: every shard checks its part of a collection; the result is valid if all parts are."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import VALIDATE
from mongos.router import router_of
from mongos.routing.broadcast import require_database, to_holders


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    require_database(await router_of(context).cache.get(context.namespace))
    answers = await to_holders(context)
    parts = {answer.shard: answer.decoded() for answer in answers}
    return {"ns": context.namespace, "valid": all(part["valid"] for part in parts.values()), "raw": parts}


COMMAND = VALIDATE.command(run)
