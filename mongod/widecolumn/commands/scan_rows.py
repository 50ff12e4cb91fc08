"""_wcScan: records of the rows in a part of the ring, for copies and for reads of routers."""

from __future__ import annotations

from docstore.bson import document_from, from_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.commands.specs.wide_column import CONSISTENCY, SCHEMA
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.executor import RingScan
from docstore.widecolumn.model.internal_requests import bytes_of
from docstore.widecolumn.model.record_pages import pack_rows
from docstore.widecolumn.model.values import binary_value
from docstore.widecolumn.node.executor import executor_of
from docstore.widecolumn.node.schema_changes import check_schema


async def run(context: Context, arguments: Arguments) -> Result:
    check_schema(context, arguments)
    after = None
    if arguments["row"] is not None:
        after = bytes_of(arguments["row"], "row"), bytes_of(arguments["path"], "path")
    scan = RingScan(
        keyspace=context.db,
        family=arguments.value,
        start=bytes_of(arguments["start"], "start"),
        end=bytes_of(arguments["end"], "end"),
        after=after,
        limit=arguments["limit"],
        statistics=arguments["statistics"],
    )
    page = await executor_of(context).scan(scan, level_named(arguments["consistency"]))
    fields = [("rows", *binary_value(pack_rows(page.rows))), ("more", *from_python(page.resume is not None))]
    if page.resume is not None:
        row, path = page.resume
        fields += [("row", *binary_value(row)), ("path", *binary_value(path))]
    return document_from(fields)


COMMAND = Command(
    "_wcScan", run, privilege=INTERNAL, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(
        SCHEMA,
        Parameter("start", Type.ANY, required=True),
        Parameter("end", Type.ANY, required=True),
        Parameter("row", Type.ANY),
        Parameter("path", Type.ANY),
        Parameter("limit", Type.INT, required=True),
        Parameter("statistics", Type.BOOL, default=False),
        CONSISTENCY,
    ),
    help="internal: records of the rows of a part of the ring",
)  # fmt: skip
