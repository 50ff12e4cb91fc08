"""Statements of CQL on a router, made again where a definition turns out to be old."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from docstore.commands.concerns import PRIMARY
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.model.executor import Executor
from mongos.router import router_of
from mongos.widecolumn.executor import RouterExecutor
from mongos.widecolumn.shard_requests import SchemaIsStale

T = TypeVar("T")
_ATTEMPTS = 10

Work = Callable[[Executor, PreparedCache, Environment], Awaitable[T]]


async def run_with_definitions(context: Context, work: Work[T], *, serial: bool, fresh: bool) -> T:
    """Run `work` over an executor of this router, again with newer definitions where it needs them.

    `serial`: it reads from primaries alone; `fresh`: with the newest definitions from the first attempt on. Errors:
    those of `work`; StaleConfig.
    """
    executor = RouterExecutor(context, read_preference=PRIMARY if serial else context.read_preference, fresh=fresh)
    environment = Environment(rng=os.urandom, pause=_pause, nonce=os.urandom(4))
    statements = router_of(context).definitions.statements
    for attempt in range(_ATTEMPTS):
        try:
            return await work(executor, statements, environment)
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
