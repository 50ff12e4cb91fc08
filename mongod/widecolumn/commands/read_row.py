"""_wcReadRow: records of a row, merged over as many members as the level asks for."""

from __future__ import annotations

from docstore.bson import document_from, from_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.commands.specs.wide_column import CONSISTENCY, SCHEMA
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.executor import PartitionRead
from docstore.widecolumn.model.internal_requests import bytes_of
from docstore.widecolumn.model.mutations import Entry, pack_entries
from docstore.widecolumn.model.values import binary_value
from docstore.widecolumn.node.executor import executor_of
from docstore.widecolumn.node.schema_changes import check_schema


async def run(context: Context, arguments: Arguments) -> Result:
    check_schema(context, arguments)
    read = PartitionRead(
        keyspace=context.db,
        family=arguments.value,
        key=bytes_of(arguments["key"], "key"),
        start=bytes_of(arguments["start"], "start"),
        end=bytes_of(arguments["end"], "end"),
        reverse=arguments["reverse"],
        limit=arguments["limit"],
        head=arguments["head"],
    )
    page = await executor_of(context).read(read, level_named(arguments["consistency"]))
    entries = pack_entries([Entry(path, record) for path, record in page.entries])
    head = pack_entries([Entry(path, record) for path, record in page.head])
    return document_from(
        [("entries", *binary_value(entries)), ("more", *from_python(page.more)), ("head", *binary_value(head))]
    )


COMMAND = Command(
    "_wcReadRow", run, privilege=INTERNAL, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(
        SCHEMA,
        Parameter("key", Type.ANY, required=True),
        Parameter("head", Type.BOOL, default=False),
        Parameter("start", Type.ANY, required=True),
        Parameter("end", Type.ANY, required=True),
        Parameter("reverse", Type.BOOL, default=False),
        Parameter("limit", Type.INT, required=True),
        CONSISTENCY,
    ),
    help="internal: merged records of a row",
)  # fmt: skip
