"""replSetGetConfig: return the configuration with all defaults."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import initiated_set_of
from docstore.replication.reconfig import unsettled


def run(context: Context, arguments: Arguments) -> Result:
    state = initiated_set_of(context).membership.state
    assert state.config is not None
    reply: dict[str, object] = {"config": state.config.to_document()}
    if arguments["commitmentStatus"]:
        reply["commitmentStatus"] = state.writable and not unsettled(state)
    return reply


COMMAND = Command(
    "replSetGetConfig", run, privilege=Privilege("replSetGetConfig", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("commitmentStatus", Type.SAFE_BOOL, default=False),),
    help="the configuration of the set",
)  # fmt: skip
