"""`getCmdLineOpts`: how this router was started."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import GET_CMD_LINE_OPTS
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    facts = router_of(context).facts
    return {"argv": list(facts.argv), "parsed": dict(facts.parsed)}


COMMAND = GET_CMD_LINE_OPTS.command(run)
