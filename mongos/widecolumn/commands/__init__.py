"""The commands of the wide-column mode that a router serves."""

from __future__ import annotations

from docstore.commands.declaration import Command
from mongos.widecolumn.commands import apply_rows, columns, cql

COMMANDS: tuple[Command, ...] = (apply_rows.COMMAND, cql.COMMAND, *columns.COMMANDS)
