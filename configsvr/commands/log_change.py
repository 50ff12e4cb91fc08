"""_configsvrLogChange: see `docstore.sharding.requests.log_change`."""

from __future__ import annotations

from typing import Any

from bson.raw_bson import RawBSONDocument

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.changelog.add(
        arguments.value,
        arguments["ns"],
        RawBSONDocument(arguments["details"]),
        server=arguments["server"],
        shard=arguments["shard"],
        client=context.connection.remote,
    )
    return {}


COMMAND = internal_command(
    "_configsvrLogChange",
    run,
    value=Type.STRING,
    parameters=(
        Parameter("ns", Type.STRING, required=True, internal=True),
        Parameter("details", Type.OBJECT, required=True, internal=True),
        Parameter("server", Type.STRING, default="", internal=True),
        Parameter("shard", Type.STRING, default="", internal=True),
    ),
    help="add an entry to the changelog",
)
