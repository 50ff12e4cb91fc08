"""_wcApply: mutations as merges, for a router that has made them; those of one row perhaps only if it is as it was
seen.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role, Type
from docstore.commands.wide_column import APPLY_ROWS
from docstore.errors import Code, CommandError
from docstore.node.wide.executor import executor_of
from docstore.node.wide.schema import check_schema
from docstore.wide.consistency import level_named
from docstore.wide.received import seen_parts, writes_of


async def run(context: Context, arguments: Arguments) -> Result:
    check_schema(context, arguments)
    writes = writes_of(arguments["writes"], context.db, arguments.value)
    level = level_named(arguments["consistency"])
    if arguments["seen"] is None:
        return {"n": len(writes), "warnings": await executor_of(context).apply(writes, level)}
    if len(writes) != 1:
        raise CommandError(Code.BadValue, "what was seen is of one row")
    seen = seen_parts(arguments["seen"], writes[0])
    warnings = await executor_of(context).apply_if(writes, seen, level)
    return {"n": 0, "outdated": True} if warnings is None else {"n": 1, "warnings": warnings}


COMMAND = Command(
    "_wcApply", run, privilege=INTERNAL, role=Role.ANY, value=Type.COLLECTION, parameters=APPLY_ROWS,
    help="internal: merge mutations into rows",
)  # fmt: skip
