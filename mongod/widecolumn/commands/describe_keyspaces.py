"""describeKeyspaces: every keyspace with the definitions of its column families."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import DESCRIBE_KEYSPACES
from docstore.node.node import node_of
from docstore.widecolumn.model.definition_commands import keyspace_document
from docstore.widecolumn.node.keyspaces import stored, wide_of


def run(context: Context, arguments: Arguments) -> Result:
    del arguments
    wide = wide_of(node_of(context))
    return {
        "keyspaces": [
            keyspace_document(keyspace, [stored(family) for family in wide.families(keyspace.name)])
            for keyspace in wide.keyspaces()
        ]
    }


COMMAND = DESCRIBE_KEYSPACES.command(run)
