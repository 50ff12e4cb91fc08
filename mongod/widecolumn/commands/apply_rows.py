"""_wcApply: merges that a router has prepared; those of one row may depend on its unchanged state."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import APPLY_ROWS
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.errors import invalid_request
from docstore.widecolumn.model.executor import RowWrite
from docstore.widecolumn.model.hint_origin import parse_hint_origin
from docstore.widecolumn.model.internal_requests import seen_parts, writes_of
from docstore.widecolumn.node.executor import executor_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.read_state import shown_key
from docstore.widecolumn.node.schema_changes import check_schema
from mongod.limits import MAX_RECORD_HEAD_BYTES


async def run(context: Context, arguments: Arguments) -> Result:
    check_schema(context, arguments)
    writes = writes_of(arguments["writes"], context.db, arguments.value)
    for write in writes:
        _check_values(context, write)
    level = level_named(arguments["consistency"])
    if arguments["seen"] is None:
        hint = parse_hint_origin(arguments["hint"])
        return {"n": len(writes), "warnings": await executor_of(context).apply(writes, level, hint)}
    if len(writes) != 1:
        raise CommandError(Code.BadValue, "what was seen is of one row")
    parts = seen_parts(arguments["seen"], writes[0])
    warnings = await executor_of(context).apply_if(writes, parts, level)
    return {"n": 0, "outdated": True} if warnings is None else {"n": 1, "warnings": warnings}


def _check_values(context: Context, write: RowWrite) -> None:
    """InvalidRequest for a value that is larger than values may be here: a router does not know of the limit."""
    limit = wide_of(node_of(context)).settings.max_value
    largest = max((len(entry.record) for entry in write.entries), default=0) - MAX_RECORD_HEAD_BYTES
    if largest > limit:
        raise invalid_request(
            f"a value of row {shown_key(write.key)} has {largest} bytes, more than the limit of {limit}"
        )


COMMAND = APPLY_ROWS.command(run)
