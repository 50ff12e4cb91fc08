"""_configsvrMongosPing: see `docstore.sharding.requests.mongos_ping`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type


def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    server.cluster.router_seen(arguments.value, arguments["up"], arguments["waiting"], arguments["mongoVersion"])
    return {}


COMMAND = Command(
    "_configsvrMongosPing",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.STRING,
    parameters=(
        Parameter("up", Type.INT, default=0, internal=True),
        Parameter("waiting", Type.BOOL, default=True, internal=True),
        Parameter("mongoVersion", Type.STRING, default="", internal=True),
    ),
    help="a router is there",
)
