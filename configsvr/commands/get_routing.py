"""_configsvrGetRouting: the routing of a namespace, all or the changes; see `docstore.sharding.routing`.

    {_configsvrGetRouting: "db.collection" | "db", since: {v: Timestamp, e: ObjectId}}

Reads with majority read concern, so no router uses a change that is rolled back.
"""

from __future__ import annotations

from itertools import islice

from configsvr.catalog.records import COLLECTIONS, DATABASES, CollectionRecord
from configsvr.server import server_of
from docstore.bson import (
    append_fields,
    array_documents,
    document_from,
    document_to_python,
    documents_array,
    get_field,
)
from docstore.bson.walk import ARRAY, BOOL, OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadConcern, ReadLevel
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.kernel.compute.projection import TopFields
from docstore.namespace import split_namespace
from docstore.sharding.version import ShardVersion

_MAJORITY = ReadConcern(ReadLevel.MAJORITY)
_CHUNK = TopFields(("min", "max", "shard", "lastmod", "jumbo"))
"""The fields of a chunk in the reply."""
PAGE_CHUNKS = 2000
"""The chunks of one reply, which is built without yielding."""


def _for_routers(chunk: bytes) -> bytes:
    """Return the chunk in the form for routers; `since`: when it came to its shard."""
    row, history = _CHUNK.apply(chunk), get_field(chunk, "history")
    newest = None if history is None else next(iter(array_documents(history[1])), None)
    since = None if newest is None else get_field(newest, "validAfter")
    return row if since is None else append_fields(row, b"\x11since\0" + since[1])


async def run(context: Context, arguments: Arguments) -> bytes:
    server = server_of(context)
    namespace: str = arguments.value
    since = None if arguments["since"] is None else ShardVersion.from_document(document_to_python(arguments["since"]))
    reader, release = await server.node.replication.reader(_MAJORITY, context.deadline)
    try:
        fields: list[tuple[str, int, bytes]] = []
        database = server.tables.document(DATABASES, split_namespace(namespace)[0], reader)
        if database is not None:
            fields.append(("database", OBJECT, database))
        raw = server.tables.document(COLLECTIONS, namespace, reader)
        if raw is not None:
            record = CollectionRecord.from_raw(raw)
            full = since is None or since.epoch != record.epoch
            changed_chunks = list(islice(server.chunks.changed_since(record, since, reader), PAGE_CHUNKS + 1))
            chunks = [_for_routers(chunk) for chunk in changed_chunks[:PAGE_CHUNKS]]
            fields += [
                ("collection", OBJECT, raw),
                ("full", BOOL, b"\1" if full else b"\0"),
                ("chunks", ARRAY, documents_array(chunks)),
                ("more", BOOL, b"\1" if len(changed_chunks) > PAGE_CHUNKS else b"\0"),
            ]
        return document_from(fields)
    finally:
        release()


COMMAND = internal_command(
    "_configsvrGetRouting",
    run,
    value=Type.STRING,
    parameters=(Parameter("since", Type.OBJECT, internal=True),),
    help="where a namespace lives",
)
