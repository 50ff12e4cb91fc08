"""getDefaultRWConcern: return the default read and write concerns.

If none is set, the write concern implied by the members.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.concerns import GET_DEFAULT_RW_CONCERN
from docstore.errors import CommandError
from docstore.node.concern_defaults import shown_defaults
from docstore.node.node import node_of
from docstore.node.process.settings import ClusterRole
from docstore.replicaset.standalone import Standalone


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    if isinstance(node.replication, Standalone):
        raise CommandError(51300, "'getDefaultRWConcern' is not supported on standalone nodes.")
    if node.settings.role is ClusterRole.SHARD:
        raise CommandError(51301, "'getDefaultRWConcern' is not supported on shard nodes.")
    defaults = shown_defaults(node)
    if arguments["inMemory"]:
        time = defaults.pop("localUpdateWallClockTime")
        defaults |= {"inMemory": True, "localUpdateWallClockTime": time}
    return defaults


COMMAND = GET_DEFAULT_RW_CONCERN.command(run)
