"""Commands that every process serves by the same handlers, which need only the process's registries."""

from __future__ import annotations

from docstore.commands.builtin import authentication, operations, parameters, server, sessions
from docstore.commands.builtin.testing import COMMANDS as TEST_COMMANDS
from docstore.commands.declaration import Command

__all__ = ["COMMANDS", "TEST_COMMANDS"]

COMMANDS: tuple[Command, ...] = tuple(
    command for module in (authentication, operations, parameters, server, sessions) for command in module.COMMANDS
)
