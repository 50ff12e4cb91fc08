"""replSetSyncFrom: use a given member as the next sync source."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import initiated_set_of
from docstore.replication.messages import SyncFrom


async def run(context: Context, arguments: Arguments) -> Result:
    replica_set = initiated_set_of(context)
    host = arguments.value
    previous = await replica_set.membership.request(lambda token: SyncFrom(host=host, token=token))
    reply = {"syncFromRequested": host}
    if previous:
        reply["prevSyncTarget"] = previous
    return reply


COMMAND = Command(
    "replSetSyncFrom", run, privilege=Privilege("replSetStateChange", Resource.CLUSTER), role=Role.ANY, user_first=True,
    admin_only=True, value=Type.STRING, help="use that member as sync source, once",
)  # fmt: skip
