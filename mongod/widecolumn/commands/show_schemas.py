"""_wcSchemas: the stored definitions of all keyspaces of a shard, for a router.

    {_wcSchemas: 1} -> {schemas: [{name, keyspace: {keyspace: {...}}, families: [...]}, ...]}, each as of `_wcSchema`

A shard also holds keyspaces whose rows it has and whose definitions are another shard's; the router knows which are.
"""

from __future__ import annotations

from docstore.bson import ARRAY, document_from, documents_array, from_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role
from docstore.node.node import node_of
from mongod.widecolumn.stored_schemas import stored_fields


def run(context: Context, arguments: Arguments) -> bytes:
    del arguments
    store = node_of(context).store
    schemas = [
        document_from([("name", *from_python(database)), *fields])
        for database in store.catalog.databases()
        if (fields := stored_fields(store, database))
    ]
    return document_from([("schemas", ARRAY, documents_array(schemas))])


COMMAND = Command(
    "_wcSchemas", run, privilege=INTERNAL, role=Role.SECONDARY_OK, help="internal: the definitions of all keyspaces"
)  # fmt: skip
