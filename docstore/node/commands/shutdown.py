"""shutdown: the process ends in order, after the reply is on its way. A primary hands over first unless forced."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    node_of(context).shutdown()
    return {}


COMMAND = Command(
    "shutdown", run, privilege=Privilege("shutdown", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(
        Parameter("force", Type.SAFE_BOOL, default=False),
        Parameter("timeoutSecs", Type.INT, unsupported="shutdown waits as long as the hand-over takes"),
    ),
    help="end this process",
)  # fmt: skip
