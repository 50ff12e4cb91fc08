"""describeKeyspace: a keyspace with the definitions of its column families."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import DESCRIBE_KEYSPACE
from docstore.node.node import node_of
from docstore.widecolumn.model.definition_commands import keyspace_document
from docstore.widecolumn.node.keyspaces import stored, wide_of


def run(context: Context, arguments: Arguments) -> Result:
    del arguments
    wide = wide_of(node_of(context))
    keyspace = wide.existing_keyspace(context.db, context.command.name)
    return keyspace_document(keyspace, [stored(family) for family in wide.families(context.db)])


COMMAND = DESCRIBE_KEYSPACE.command(run)
