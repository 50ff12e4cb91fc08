"""_wcSchema: the stored definitions of a keyspace, for a router.

    {_wcSchema: 1} -> {keyspace: {keyspace: {...}}, families: [{name, uuid, options: {columnFamily: {...}}}, ...]}

The field `keyspace` is absent if the keyspace does not exist.
"""

from __future__ import annotations

from docstore.bson import document_from
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Role
from docstore.node.node import node_of
from mongod.widecolumn.stored_schemas import stored_fields


def run(context: Context, arguments: Arguments) -> bytes:
    del arguments
    return document_from(stored_fields(node_of(context).store, context.db))


COMMAND = Command(
    "_wcSchema", run, privilege=INTERNAL, role=Role.PRIMARY, help="internal: the definitions of a keyspace"
)  # fmt: skip
