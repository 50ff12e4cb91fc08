"""replSetReconfig: install the set's next configuration."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.administration import reconfigure


async def run(context: Context, arguments: Arguments) -> Result:
    document = document_to_python(arguments.value)
    replica_set, audit = replica_set_of(context), context.services.audit
    before = replica_set.membership.state.config
    reply = await reconfigure(replica_set, document, force=arguments["force"], deadline=context.deadline)
    if audit is not None:
        old = {} if before is None else before.to_document()
        audit.note(context.connection, "replSetReconfig", {"old": old, "new": document})
    return reply


COMMAND = Command(
    "replSetReconfig", run, privilege=Privilege("replSetConfigure", Resource.CLUSTER), role=Role.ANY,
    user_first=True, admin_only=True,
    value=Type.OBJECT, own_deadline=True,
    parameters=(Parameter("force", Type.SAFE_BOOL, default=False),),
    help="change the configuration of the set; force: on any member, without its safety",
)  # fmt: skip
