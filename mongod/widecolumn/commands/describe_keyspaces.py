"""describeKeyspaces: every keyspace with the definitions of its column families."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.node.node import node_of
from docstore.widecolumn.model.definition_commands import keyspace_document
from docstore.widecolumn.node.keyspaces import stored, wide_of


def run(context: Context, arguments: Arguments) -> Result:
    del arguments
    wide = wide_of(node_of(context))
    return {
        "keyspaces": [
            keyspace_document(keyspace, [stored(found) for found in wide.families(keyspace.name)])
            for keyspace in wide.keyspaces()
        ]
    }


COMMAND = Command(
    "describeKeyspaces", run, privilege=Privilege("listDatabases", Resource.CLUSTER), role=Role.SECONDARY_OK,
    admin_only=True, help="all keyspaces and their column families",
)  # fmt: skip
