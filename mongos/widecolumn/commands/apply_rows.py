"""_wcApply: mutations of rows that this router has kept as hints."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import APPLY_ROWS
from docstore.errors import Code, CommandError
from docstore.widecolumn.model.internal_requests import writes_of
from mongos.widecolumn.executor import RouterExecutor


async def run(context: Context, args: Arguments) -> Result:
    """Execute the command. Errors: BadValue without a hint."""
    if args["hint"] is None:
        raise CommandError(Code.BadValue, "a router applies mutations of rows only as hints")
    writes = writes_of(args["writes"], context.db, args.value)
    executor = RouterExecutor(context)
    return {"n": len(writes), "warnings": await executor.apply_hint(context.db, args.value, writes, args["hint"])}


COMMAND = APPLY_ROWS.command(run)
