"""Commands of one data model are refused on databases of the other."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Result
from docstore.node.node import node_of
from docstore.widecolumn.model.errors import wrong_mode


def for_documents(command: Command) -> Command:
    """The command, refused on a keyspace with CommandNotSupported."""
    run, name = command.run, command.name

    def checked(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
        if node_of(context).wide.is_keyspace(context.db):
            raise wrong_mode(context.db, name, wide=True)
        return run(context, arguments)

    return replace(command, run=checked)
