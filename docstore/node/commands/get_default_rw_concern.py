"""getDefaultRWConcern: return the default read and write concerns.

If none is set, the write concern implied by the members.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import CommandError
from docstore.node.concern_defaults import shown_defaults
from docstore.node.node import node_of
from docstore.replicaset.standalone import Standalone


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    if isinstance(node.replication, Standalone):
        raise CommandError(51300, "'getDefaultRWConcern' is not supported on standalone nodes.")
    defaults = shown_defaults(node)
    if arguments["inMemory"]:
        time = defaults.pop("localUpdateWallClockTime")
        defaults |= {"inMemory": True, "localUpdateWallClockTime": time}
    return defaults


COMMAND = Command(
    "getDefaultRWConcern", run, privilege=Privilege("getDefaultRWConcern", Resource.CLUSTER), role=Role.ANY,
    admin_only=True, parameters=(Parameter("inMemory", Type.BOOL, default=False),),
    help="the concerns of commands that name none",
)  # fmt: skip
