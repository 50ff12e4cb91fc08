"""_configsvrUserChanges: see `docstore.sharding.requests.user_changes`."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role
from docstore.node.node import node_of


def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    version = context.services.host.state_version()
    assert version is not None, "a config server is a member of a set"
    return {"process": version["processId"], "changes": Int64(node_of(context).users.generation)}


COMMAND = Command(
    "_configsvrUserChanges",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    help="whether users of the cluster may have changed",
)
