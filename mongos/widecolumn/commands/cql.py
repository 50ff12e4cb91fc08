"""cql: one statement of CQL, carried out over the shards.

The statement is prepared here and its plan carried out by `mongos.widecolumn.executor`: a partition is read and written
where it lies, a part of the ring is walked shard by shard in the order of tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.wide_column import CQL
from docstore.widecolumn.commands.cql import run_statement
from docstore.widecolumn.commands.roles import is_about_roles, run_role_statement
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache, parse_long
from docstore.widecolumn.cql.run.shapes import statement_of
from docstore.widecolumn.cql.statements import Describe, SchemaChange, Select, Use
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, level_named
from docstore.widecolumn.model.executor import Executor
from mongos.widecolumn.shard_requests import let_tell
from mongos.widecolumn.statement_runs import run_with_definitions


def run(context: Context, args: Arguments) -> Awaitable[dict[str, Any]]:
    if is_about_roles(args.value):
        return run_role_statement(context, args.value, context.db)
    let_tell(context)
    return _carried_out(context, args)


async def _carried_out(context: Context, args: Arguments) -> dict[str, Any]:
    parsed = parse_long(args.value)
    statement = parsed or statement_of(args.value)

    async def work(executor: Executor, statements: PreparedCache, environment: Environment) -> dict[str, Any]:
        return await run_statement(executor, statements, environment, context, args, parsed)

    return await run_with_definitions(
        context,
        work,
        serial=not isinstance(statement, Select) or level_named(args["consistency"]) in SERIAL_LEVELS,
        fresh=isinstance(statement, SchemaChange | Use | Describe),
    )


COMMAND = CQL.command(run)
