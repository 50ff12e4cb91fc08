"""compact: do nothing.

The engine reclaims deleted space when it compacts its files in the background; a collection has no free space of its
own.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import NO_CODE, Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.ddl.catalog_changes import existing
from docstore.node.node import node_of


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    force = arguments["force"]
    if node.replication.set_name is not None and not force:
        hello = node.replication.hello()
        if hello.get("isWritablePrimary"):
            raise CommandError(NO_CODE, "will not run compact on an active replica set primary unless force is given")
    if split_namespace(context.namespace)[1].startswith("system."):
        raise CommandError(NO_CODE, "can't compact a system namespace")
    existing(context, context.namespace)
    return {"bytesFreed": 0}


COMMAND = Command(
    "compact", run, privilege=Privilege("compact", Resource.COLLECTION), role=Role.ANY,
    user_first=True, value=Type.COLLECTION,
    wrong_name=Code.InvalidNamespace, tolerant=True, parameters=(Parameter("force", Type.SAFE_BOOL, default=False),),
    help="give back what deleted documents took",
)  # fmt: skip
