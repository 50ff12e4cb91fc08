"""replSetGetRBID: return this member's rollback id, which grows with each rollback."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role
from docstore.replicaset.access import initiated_set_of


def run(context: Context, arguments: Arguments) -> Result:
    membership = initiated_set_of(context).membership
    reply: dict[str, object] = {"rbid": membership.local.rollback_id}
    if membership.state.replica_set_id is not None:
        reply["replicaSetId"] = membership.state.replica_set_id
    return reply


COMMAND = Command(
    "replSetGetRBID", run, privilege=INTERNAL, role=Role.ANY, admin_only=True,
    help="a number that grows with each rollback",
)  # fmt: skip
