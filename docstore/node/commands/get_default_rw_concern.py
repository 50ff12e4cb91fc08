"""getDefaultRWConcern: the concerns of commands that name none. They follow from the members; nobody sets them."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import CommandError
from docstore.node.node import node_of
from docstore.replicaset.standalone import Standalone


def run(context: Context, _arguments: Arguments) -> Result:
    node = node_of(context)
    if isinstance(node.replication, Standalone):
        raise CommandError(51300, "'getDefaultRWConcern' is not supported on standalone nodes.")
    majority = (
        {"defaultWriteConcern": {"w": "majority", "wtimeout": 0}} if node.replication.defaults_to_majority else {}
    )
    return {
        "defaultReadConcern": {"level": "local"},
        **majority,
        "defaultWriteConcernSource": "implicit",
        "defaultReadConcernSource": "implicit",
        "localUpdateWallClockTime": node.now(),
    }


COMMAND = Command(
    "getDefaultRWConcern", run, privilege=Privilege("getDefaultRWConcern", Resource.CLUSTER), role=Role.ANY,
    admin_only=True, parameters=(Parameter("inMemory", Type.BOOL, default=False),),
    help="the concerns of commands that name none",
)  # fmt: skip
