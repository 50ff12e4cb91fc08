"""_recvDatabaseCollections: a donor tells of collections of a database, before it sends documents of them.

    {_recvDatabaseCollections: 1, migrationId, number: long, collections: [{ns, uuid, options, indexes: [spec, ...]}]}

Numbered together with `_recvChunkDocuments`. NamespaceExists where this shard has others of a name with something in
them.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.bson import array_documents, document_to_python, get_field
from docstore.bson.walk import ARRAY
from docstore.collection.catalog.options import parse_options
from docstore.collection.index.spec import parse_index_spec
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Type
from docstore.commands.specs.cluster import internal_command
from docstore.errors import Code, CommandError
from docstore.sharding.key import raw_field
from docstore.sharding.recipient_messages import CollectionDefinition, TakeCollections
from mongod.migration.recipient_parameters import MIGRATION_ID, NUMBER, required
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    definitions = [_definition(raw) for raw in arguments["collections"]]
    identity, number = arguments["migrationId"], arguments["number"]
    await shard_of(context).recipient.take(
        lambda token: TakeCollections(token=token, id=identity, number=number, definitions=definitions)
    )
    return {}


def _definition(raw: bytes) -> CollectionDefinition:
    body, indexes = document_to_python(raw), get_field(raw, "indexes")
    if indexes is None or indexes[0] != ARRAY:
        raise CommandError(Code.TypeMismatch, "a collection has indexes")
    if not isinstance(body.get("ns"), str) or not isinstance(body.get("uuid"), Binary):
        raise CommandError(Code.TypeMismatch, "a collection has a name and a uuid")
    if not isinstance(body.get("options"), dict):
        raise CommandError(Code.TypeMismatch, "a collection has options")
    definition = CollectionDefinition(
        namespace=body["ns"],
        uuid=body["uuid"],
        options=raw_field(raw, "options"),
        indexes=tuple(array_documents(indexes[1])),
    )
    parse_options(definition.options)
    for spec in definition.indexes:
        parse_index_spec(spec)
    return definition


COMMAND = internal_command(
    "_recvDatabaseCollections",
    run,
    parameters=(
        MIGRATION_ID,
        NUMBER,
        required("collections", Type.DOCUMENTS),
    ),
    admin_only=True,
    help="make collections of a database that comes to this shard",
)
