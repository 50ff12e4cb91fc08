"""replSetStepDown: make the primary step down as soon as another member can take over."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.administration import step_down

DEFAULT_SECONDS = 60.0


async def run(context: Context, arguments: Arguments) -> Result:
    seconds = arguments.value
    await step_down(
        replica_set_of(context),
        DEFAULT_SECONDS if seconds is None else float(seconds),
        arguments["secondaryCatchUpPeriodSecs"],
        force=arguments["force"],
    )
    return {}


COMMAND = Command(
    "replSetStepDown", run, privilege=Privilege("replSetStateChange", Resource.CLUSTER), role=Role.ANY, user_first=True,
    admin_only=True, value=Type.NUMBER,
    parameters=(
        Parameter("secondaryCatchUpPeriodSecs", Type.NUMBER),
        Parameter("force", Type.SAFE_BOOL, default=False),
    ),
    help="the primary becomes secondary for so many seconds",
)  # fmt: skip
