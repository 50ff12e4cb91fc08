"""_configsvrCommitRename: a coordinator has renamed a collection on every shard, perhaps over another one.

    {_configsvrCommitRename: ns, to: ns, sourceUuid: uuid | null, targetUuid: uuid | null}

The uuids are those of the sharded collections. Idempotent.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from configsvr.server import server_of
from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server, body = server_of(context), document_to_python(context.raw)
    source, target = arguments.value, arguments["to"]
    uuids: list[Binary | None] = [body[name] for name in ("sourceUuid", "targetUuid")]
    for namespace, uuid in zip((source, target), uuids, strict=True):
        if uuid is not None:
            server.cluster.note_dropped(namespace, uuid)
    if server.chunks.rename(source, target, *uuids):
        server.changelog.add("renameCollection", source, {"to": target})
    await server.committed()
    return {}


COMMAND = internal_command(
    "_configsvrCommitRename",
    run,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("to", Type.NAMESPACE, required=True, internal=True),
        Parameter("sourceUuid", Type.ANY, internal=True),
        Parameter("targetUuid", Type.ANY, internal=True),
    ),
    help="give a sharded collection another name",
)
