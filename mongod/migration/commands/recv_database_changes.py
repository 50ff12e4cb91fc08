"""_recvDatabaseChanges: a donor sends changes of a database's collections made since they were read.

    {_recvDatabaseChanges: 1, migrationId, number: long, majority: bool,
     collections: [{ns, documents: int, deleted: [_id, ...]}], documents: [...]}

Numbered together with `_recvChunkDocuments`, and processed like changes there. `documents` has the first collection's
documents, as many as it says, then the next collection's.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python, get_field, values
from docstore.bson.walk import ARRAY
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.errors import Code, CommandError
from docstore.sharding.recipient_messages import CollectionChanges, TakeChanges
from mongod.migration.recipient_parameters import MIGRATION_ID, NUMBER
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    documents, changes, at = arguments["documents"], [], 0
    for raw in arguments["collections"]:
        body, deleted_ids = document_to_python(raw), get_field(raw, "deleted")
        if not isinstance(body.get("ns"), str) or deleted_ids is None or deleted_ids[0] != ARRAY:
            raise CommandError(Code.TypeMismatch, "the changes of a collection have its name and what is deleted")
        count = body.get("documents")
        if not isinstance(count, int) or not 0 <= count <= len(documents) - at:
            raise CommandError(Code.BadValue, f"the changes of {body['ns']} are not {count} documents")
        changes.append(CollectionChanges(body["ns"], documents[at : at + count], values(deleted_ids[1])))
        at += count
    identity, number, majority = (arguments[name] for name in ("migrationId", "number", "majority"))
    await shard_of(context).recipient.take(
        lambda token: TakeChanges(token=token, id=identity, number=number, changes=changes, majority=majority)
    )
    return {}


COMMAND = internal_command(
    "_recvDatabaseChanges",
    run,
    parameters=(
        MIGRATION_ID,
        NUMBER,
        Parameter("majority", Type.BOOL, default=False, internal=True),
        Parameter("collections", Type.DOCUMENTS, default=(), internal=True),
        Parameter("documents", Type.DOCUMENTS, default=(), internal=True),
    ),
    admin_only=True,
    help="store changes of a database that comes to this shard",
)
