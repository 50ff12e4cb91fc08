"""getCmdLineOpts: how the process was started."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    settings = node_of(context).settings
    return {"argv": list(settings.argv), "parsed": dict(settings.parsed)}


COMMAND = Command(
    "getCmdLineOpts", run, privilege=Privilege("getCmdLineOpts", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="the command line of the process",
)  # fmt: skip
