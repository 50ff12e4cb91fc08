"""replSetInitiate: make a set of members that have no data, or of this one alone."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Response, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.administration import initiate


def run(context: Context, arguments: Arguments) -> Response:
    # The shell of 2012 sends a number when it was called without an argument.
    given = arguments.value
    return initiate(replica_set_of(context), document_to_python(given) if isinstance(given, bytes) else {})


COMMAND = Command(
    "replSetInitiate", run, privilege=Privilege("replSetConfigure", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    value=(Type.OBJECT, Type.NUMBER), help="initiate a replica set",
)  # fmt: skip
