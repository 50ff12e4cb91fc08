"""_wcApply: mutations as merges, for a router that has made them; those of one row perhaps only if it is as it was
seen.
"""

from __future__ import annotations

import bson

from docstore.bson import get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role, Type
from docstore.commands.wide_column import APPLY_ROWS
from docstore.node.wide.executor import executor_of
from docstore.node.wide.schema import check_schema
from docstore.wide.consistency import level_named
from docstore.wide.execution import RowWrite
from docstore.wide.mutations import unpack_entries
from docstore.wide.portions import seen_of


async def run(context: Context, arguments: Arguments) -> Result:
    check_schema(context, arguments)
    writes = []
    for raw in arguments["writes"]:
        key, entries = get_field(raw, "key"), get_field(raw, "entries")
        assert key is not None, "a router names the row"
        assert entries is not None, "a router names the entries"
        writes.append(RowWrite(context.db, arguments.value, key[1][5:], unpack_entries(entries[1][5:])))
    level = level_named(arguments["consistency"])
    if arguments["seen"] is None:
        return {"n": len(writes), "warnings": await executor_of(context).apply(writes, level)}
    (write,) = writes
    seen = [seen_of(bson.decode(raw), context.db, arguments.value, write.key) for raw in arguments["seen"]]
    warnings = await executor_of(context).apply_if(writes, seen, level)
    return {"n": 0, "outdated": True} if warnings is None else {"n": 1, "warnings": warnings}


COMMAND = Command(
    "_wcApply", run, privilege=INTERNAL, role=Role.ANY, value=Type.COLLECTION, parameters=APPLY_ROWS,
    help="internal: merge mutations into rows",
)  # fmt: skip
