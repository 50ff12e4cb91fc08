"""top: return the cost of requests per collection."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.node.node import node_of
from docstore.node.upkeep.costs import unknown_names


def run(context: Context, _arguments: Arguments) -> Result:
    metrics = context.services.metrics
    metrics.forget(unknown_names(node_of(context).store))
    return {"totals": {"note": "all times in microseconds", **metrics.top()}}


COMMAND = Command(
    "top", run, privilege=Privilege("top", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="times by collection",
)  # fmt: skip
