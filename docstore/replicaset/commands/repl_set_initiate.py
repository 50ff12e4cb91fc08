"""replSetInitiate: create a set of members without data, or of this one alone."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.administration import initiate


async def run(context: Context, arguments: Arguments) -> Result:
    # The shell of 2012 sends a number if called without an argument.
    value = arguments.value
    replica_set, audit = replica_set_of(context), context.services.audit
    reply = await initiate(replica_set, document_to_python(value) if isinstance(value, bytes) else {})
    if audit is not None:
        config = replica_set.membership.state.config
        audit.note(context.connection, "replSetReconfig", {"new": {} if config is None else config.to_document()})
    return reply


COMMAND = Command(
    "replSetInitiate", run, privilege=Privilege("replSetConfigure", Resource.CLUSTER), role=Role.ANY,
    user_first=True, admin_only=True,
    value=(Type.OBJECT, Type.NUMBER), help="initiate a replica set",
)  # fmt: skip
