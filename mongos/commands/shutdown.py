"""`shutdown`: end this router."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    router_of(context).shutdown()
    return {}


COMMAND = Command(
    "shutdown",
    run,
    privilege=Privilege("shutdown", Resource.CLUSTER),
    role=Role.ANY,
    admin_only=True,
    parameters=(
        Parameter("force", Type.SAFE_BOOL, default=False),
        Parameter("timeoutSecs", Type.INT, default=0),
    ),
    help="End this router.",
)
