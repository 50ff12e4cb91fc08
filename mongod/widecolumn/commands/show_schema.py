"""_wcSchema: the stored definitions of a keyspace, for a router.

    {_wcSchema: 1} -> {keyspace: {keyspace: {...}}, families: [{name, uuid, options: {columnFamily: {...}}}, ...]}

The field `keyspace` is absent if the keyspace does not exist.
"""

from __future__ import annotations

from docstore.bson import ARRAY, OBJECT, document_from, documents_array, from_python
from docstore.collection.oplog.entry import uuid_value
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role
from docstore.node.node import node_of
from docstore.widecolumn.node.keyspaces import MARK


def run(context: Context, arguments: Arguments) -> bytes:
    del arguments
    store = node_of(context).store
    mark = store.collection(f"{context.db}.{MARK}")
    if mark is None:
        return document_from([])
    families = [
        document_from(
            [
                ("name", *from_python(collection.name)),
                ("uuid", *uuid_value(collection.uuid)),
                ("options", OBJECT, collection.options.raw),
            ]
        )
        for collection in store.catalog.in_database(context.db)
        if collection.options.family is not None
    ]
    return document_from([("keyspace", OBJECT, mark.options.raw), ("families", ARRAY, documents_array(families))])


COMMAND = Command(
    "_wcSchema", run, privilege=INTERNAL, role=Role.PRIMARY, help="internal: the definitions of a keyspace"
)  # fmt: skip
