"""killOp: ask an operation to end; no error if it has ended already."""

from __future__ import annotations

from docstore.bson import get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.operations.ids import operation_id
from docstore.commands.specs.processes import KILL_OP


def run(context: Context, _arguments: Arguments) -> Result:
    context.services.operations.kill(operation_id(get_field(context.raw, "op")))
    return {"info": "attempting to kill op"}


COMMAND = KILL_OP.command(run)
