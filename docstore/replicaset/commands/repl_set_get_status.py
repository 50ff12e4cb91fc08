"""replSetGetStatus: return the state of the set as known to this member."""

from __future__ import annotations

import time

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.status import status


def run(context: Context, arguments: Arguments) -> Result:
    replica_set = replica_set_of(context)
    return status(
        replica_set,
        now=replica_set.membership.driver.now(),
        wall=time.time(),
        started=replica_set.started,
        initial_sync=bool(arguments["initialSync"]),
    )


COMMAND = Command(
    "replSetGetStatus", run, privilege=Privilege("replSetGetStatus", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("initialSync", Type.INT, default=1, minimum=0, maximum=1),),
    help="the state of the set's members",
)  # fmt: skip
