"""backupOpen: create a checkpoint of the node, whose files backupRead returns in pieces until backupClose.

The checkpoint's oplog ends between `after` and `until` of the reply, both included. Required are the privileges to read
all documents, the users and the oplog. `{backupOpen: 1, checkpoint: false}` creates none, and returns the database's
identity.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Result, Role, Type
from docstore.node.backups import PRIVILEGE, OpenBackups, needs
from docstore.node.node import node_of
from docstore.replicaset.replicaset import ReplicaSet


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    backups = node.parts[OpenBackups]
    reply: dict[str, Any] = {"database": backups.database_identity()}
    if isinstance(node.replication, ReplicaSet):
        config = node.replication.membership.state.config
        reply["setName"] = node.replication.set_name
        reply["setId"] = None if config is None else config.settings.replica_set_id
    if not arguments["checkpoint"]:
        return reply
    backup = await backups.open()
    reply["backupId"] = backup.identity
    reply["files"] = [
        {"name": file.name, "size": Int64(file.size), "modified": Int64(file.modified)}
        for file in backup.files.values()
    ]
    if isinstance(node.replication, ReplicaSet):
        reply["after"], reply["until"] = backup.after.to_document(), backup.until.to_document()
    return reply


COMMAND = Command(
    "backupOpen", run, privilege=PRIVILEGE, needs=needs, role=Role.ANY, admin_only=True,
    parameters=(Parameter("checkpoint", Type.BOOL, default=True),), help="make a checkpoint whose files can be read",
)  # fmt: skip
