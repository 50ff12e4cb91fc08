"""top: return the cost of requests per collection."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role


def run(context: Context, _arguments: Arguments) -> Result:
    metrics = context.services.metrics
    assert metrics.is_dropped is not None, "a node knows its collections"
    metrics.forget(metrics.is_dropped)
    return {"totals": {"note": "all times in microseconds", **metrics.top()}}


COMMAND = Command(
    "top", run, privilege=Privilege("top", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="times by collection",
)  # fmt: skip
