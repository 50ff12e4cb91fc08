"""replSetMaintenance: stay in RECOVERING, without reads and elections, until undone."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import initiated_set_of
from docstore.replication.messages import Maintenance


async def run(context: Context, arguments: Arguments) -> Result:
    on = bool(arguments.value)
    await initiated_set_of(context).membership.request(lambda token: Maintenance(on=on, token=token))
    return {}


COMMAND = Command(
    "replSetMaintenance", run, privilege=Privilege("replSetStateChange", Resource.CLUSTER), role=Role.ANY,
    user_first=True,
    admin_only=True, value=Type.SAFE_BOOL, help="enter or leave maintenance mode; as often left as entered",
)  # fmt: skip
