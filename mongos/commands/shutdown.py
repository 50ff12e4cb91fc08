"""`shutdown`: end this router."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import SHUTDOWN
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    router_of(context).shutdown()
    return {}


COMMAND = SHUTDOWN.command(run)
