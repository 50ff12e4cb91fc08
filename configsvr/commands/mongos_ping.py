"""_configsvrMongosPing: see `docstore.sharding.requests.mongos_ping`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    cql = arguments["cql"]
    server.cluster.router_seen(
        arguments.value,
        arguments["up"],
        arguments["waiting"],
        arguments["mongoVersion"],
        None if cql is None else document_to_python(cql),
    )
    return {}


COMMAND = internal_command(
    "_configsvrMongosPing",
    run,
    value=Type.STRING,
    parameters=(
        Parameter("up", Type.INT, default=0, internal=True),
        Parameter("waiting", Type.BOOL, default=True, internal=True),
        Parameter("mongoVersion", Type.STRING, default="", internal=True),
        Parameter("cql", Type.OBJECT, internal=True),
    ),
    help="a router is there",
)
