"""convertToCapped: replace a collection by a capped one with its newest documents that fit."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import CONVERT_TO_CAPPED
from docstore.namespace import check_removable
from docstore.node.ddl.capped import convert
from docstore.node.ddl.catalog_changes import existing
from docstore.node.read.requests import capped_size_of
from docstore.node.write.driver import check_writable


async def run(context: Context, arguments: Arguments) -> Result:
    check_writable(context.namespace)
    check_removable(context.namespace)
    size = capped_size_of(arguments["size"])
    return await convert(context, existing(context, context.namespace), size)


COMMAND = CONVERT_TO_CAPPED.command(run)
