"""Rejection of document commands on databases with other data."""

from __future__ import annotations

from dataclasses import replace

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Response
from docstore.node.node import node_of


def for_documents(command: Command) -> Command:
    """Wrap a command to raise CommandNotSupported if the mode of the node's store guards the database."""
    run, name = command.run, command.name

    def checked(context: Context, arguments: Arguments) -> Response:
        store = node_of(context).store
        if store.mode is not None:
            store.mode.check_documents(store.catalog, context.db, name)
        return run(context, arguments)

    return replace(command, run=checked)
