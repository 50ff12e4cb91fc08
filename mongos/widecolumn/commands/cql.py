"""cql: one statement of CQL, carried out over the shards.

The statement is prepared here and its plan carried out by `mongos.widecolumn.executor`: a partition is read and written
where it lies, a part of the ring is walked shard by shard in the order of tokens.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.concerns import PRIMARY
from docstore.commands.context import Context
from docstore.commands.specs.wide_column import CQL
from docstore.errors import Code, CommandError
from docstore.widecolumn.commands.cql import run_statement
from docstore.widecolumn.commands.roles import is_about_roles, run_role_statement
from docstore.widecolumn.cql import parser
from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.statements import Describe, SchemaChange, Select, Use
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, level_named
from mongos.router import router_of
from mongos.widecolumn.executor import RouterExecutor
from mongos.widecolumn.shard_requests import SchemaIsStale, let_tell

_ATTEMPTS = 10


def run(context: Context, args: Arguments) -> Awaitable[dict[str, Any]]:
    if is_about_roles(args.value):
        return run_role_statement(context, args.value, context.db)
    let_tell(context)
    return _carried_out(context, args)


async def _carried_out(context: Context, args: Arguments) -> dict[str, Any]:
    statement = parser.parse(args.value)
    serial = not isinstance(statement, Select) or level_named(args["consistency"]) in SERIAL_LEVELS
    executor = RouterExecutor(
        context,
        read_preference=PRIMARY if serial else context.read_preference,
        fresh=isinstance(statement, SchemaChange | Use | Describe),
    )
    router = router_of(context)
    environment = Environment(rng=os.urandom, pause=_pause)
    for attempt in range(_ATTEMPTS):
        try:
            return await run_statement(executor, router.definitions.statements, environment, context, args)
        except SchemaIsStale as stale:
            if attempt:
                # The definition was read just before: the shard that has another is behind.
                await executor.copy_definition(stale.keyspace, stale.family)
        except CqlError:
            if not executor.used_kept:
                raise
        executor.again()
    raise CommandError(Code.StaleConfig, "the definitions that the statement is about keep changing")


async def _pause() -> None:
    await asyncio.sleep(0)


COMMAND = CQL.command(run)
