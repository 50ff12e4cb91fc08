"""_configsvrRemoveCollection: a coordinator has dropped a sharded collection on every shard.

    {_configsvrRemoveCollection: ns, uuid}

Nothing changes when there is none of that uuid (any more).
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    record = server.chunks.collection(arguments.value)
    if record is not None and bytes(record.uuid) == arguments["uuid"]:
        server.cluster.note_dropped(arguments.value, Binary(arguments["uuid"], 4))
        server.chunks.remove(record)
        server.changelog.add("dropCollection", record.namespace, {})
    await server.committed()
    return {}


COMMAND = internal_command(
    "_configsvrRemoveCollection",
    run,
    value=Type.NAMESPACE,
    parameters=(Parameter("uuid", Type.UUID, required=True, internal=True),),
    help="forget a sharded collection that was dropped",
)
