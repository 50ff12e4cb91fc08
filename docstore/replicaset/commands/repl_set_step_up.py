"""replSetStepUp: run for primary now."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.replicaset.access import initiated_set_of
from docstore.replication.messages import StepUpRequest


async def run(context: Context, arguments: Arguments) -> Result:
    replica_set = initiated_set_of(context)
    state = replica_set.membership.state
    if state.writable:
        return {}
    await replica_set.membership.request(lambda token: StepUpRequest(token=token))
    if arguments["skipDryRun"]:
        # A primary that hands over does not wait for the outcome.
        return {}
    assert state.config is not None
    await replica_set.wait_for(
        lambda: state.writable or (state.candidacy.election is None and state.primary_state is None),
        state.config.settings.election_timeout,
    )
    if not state.writable:
        raise CommandError(Code.CommandFailed, "Election failed.")
    return {}


COMMAND = Command(
    "replSetStepUp", run, privilege=Privilege("replSetStateChange", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("skipDryRun", Type.SAFE_BOOL, default=False, internal=True),),
    help="this member runs for primary at once",
)  # fmt: skip
