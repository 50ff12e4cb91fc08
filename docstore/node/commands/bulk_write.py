"""bulkWrite: execute inserts, updates and deletes on several collections in one request."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import BULK_WRITE
from docstore.node.slices import run_steps
from docstore.node.write.bulk import bulk_written


def run(context: Context, arguments: Arguments) -> Response:
    return run_steps(context, bulk_written(context, arguments))


COMMAND = BULK_WRITE.command(run)
