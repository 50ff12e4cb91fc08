"""replSetAbortPrimaryCatchUp: make a new primary accept writes now."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.replicaset.access import initiated_set_of
from docstore.replication.messages import AbortCatchUp


async def run(context: Context, arguments: Arguments) -> Result:
    await initiated_set_of(context).membership.request(lambda token: AbortCatchUp(token=token))
    return {}


COMMAND = Command(
    "replSetAbortPrimaryCatchUp", run, privilege=Privilege("replSetStateChange", Resource.CLUSTER), role=Role.ANY,
    admin_only=True, help="end the catch-up of a new primary",
)  # fmt: skip
