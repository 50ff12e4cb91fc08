"""`isdbgrid`: how clients ask whether they talk to a router."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Role
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    return {"isdbgrid": 1, "hostname": router_of(context).facts.hostname}


COMMAND = Command("isdbgrid", run, privilege=PUBLIC, role=Role.ANY, help="Whether this is a router.")
