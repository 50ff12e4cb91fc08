"""replSetFreeze: do not run for primary for a number of seconds."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.replicaset.access import initiated_set_of
from docstore.replication.messages import Freeze


async def run(context: Context, arguments: Arguments) -> Result:
    replica_set = initiated_set_of(context)
    seconds = arguments.value
    if not isinstance(seconds, (int, float)) or seconds < 0:
        raise CommandError(Code.BadValue, "freeze seconds must be a number of at least 0")
    await replica_set.membership.request(lambda token: Freeze(seconds=float(seconds), token=token))
    if seconds == 0:
        return {"info": "unfreezing"}
    return {"warning": "you really want to freeze for only 1 second?"} if seconds == 1 else {}


COMMAND = Command(
    "replSetFreeze", run, privilege=Privilege("replSetStateChange", Resource.CLUSTER), role=Role.ANY,
    user_first=True, admin_only=True,
    value=Type.NUMBER, help="do not run for primary for so many seconds; 0 takes that back",
)  # fmt: skip
