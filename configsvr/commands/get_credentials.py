"""_configsvrGetCredentials: see `docstore.sharding.requests.get_credentials`."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.node.node import node_of
from docstore.security.names import UserName
from docstore.security.scram import MECHANISMS


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    name, access = UserName(arguments.value, arguments["db"]), context.services.access
    own_credentials, profile = access.completed(await node_of(context).users.known_by(name, access.pretence))
    # Computed for every name and shown to nobody: replies have one size and take the same time.
    pretended = {mechanism: access.pretended(mechanism, name, profile) for mechanism in MECHANISMS}
    visible = (
        {kind: pretended[kind] for kind in MECHANISMS if kind in profile}
        if own_credentials is None
        else own_credentials
    )
    credentials = {mechanism: credential.document() for mechanism, credential in visible.items()}
    return {"known": own_credentials is not None, "credentials": credentials}


COMMAND = Command(
    "_configsvrGetCredentials",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    value=Type.STRING,
    parameters=(Parameter("db", Type.STRING, required=True, internal=True),),
    help="what a user of the cluster is known by",
)
