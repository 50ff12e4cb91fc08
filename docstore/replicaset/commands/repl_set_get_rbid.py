"""replSetGetRBID: how often this member has rolled back."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role
from docstore.replicaset.access import initiated_set_of


def run(context: Context, arguments: Arguments) -> Result:
    return {"rbid": initiated_set_of(context).membership.local.rollback_id}


COMMAND = Command(
    "replSetGetRBID", run, privilege=INTERNAL, role=Role.ANY, admin_only=True,
    help="a number that grows with each rollback",
)  # fmt: skip
