"""`hostInfo`: the machine of this router."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.operations.machine import machine_report
from docstore.commands.specs.processes import HOST_INFO
from mongos.router import router_of


async def run(context: Context, _arguments: Arguments) -> dict[str, Any]:
    facts = router_of(context).facts
    port = int(facts.address.rpartition(":")[2])
    return machine_report(facts.hostname, port, context.services.wall_clock())


COMMAND = HOST_INFO.command(run)
