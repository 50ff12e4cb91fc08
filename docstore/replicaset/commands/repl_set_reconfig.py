"""replSetReconfig: the next configuration of the set."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Response, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.administration import reconfigure


def run(context: Context, arguments: Arguments) -> Response:
    document = document_to_python(arguments.value)
    return reconfigure(replica_set_of(context), document, force=arguments["force"], deadline=context.deadline)


COMMAND = Command(
    "replSetReconfig", run, privilege=Privilege("replSetConfigure", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    value=Type.OBJECT, own_deadline=True,
    parameters=(Parameter("force", Type.SAFE_BOOL, default=False),),
    help="change the configuration of the set; force: on any member, without its safety",
)  # fmt: skip
