"""getCmdLineOpts: return the process's command line."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import GET_CMD_LINE_OPTS
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    settings = node_of(context).settings
    return {"argv": list(settings.argv), "parsed": dict(settings.parsed)}


COMMAND = GET_CMD_LINE_OPTS.command(run)
