"""listCommands: every declared command with what its declaration says."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Resource, Result, Role


def run(context: Context, _arguments: Arguments) -> Result:
    return {
        "commands": {
            command.name: {
                "help": command.help,
                "requiresAuth": command.privilege.resource is not Resource.NONE,
                "secondaryOk": command.role is Role.ANY,
                "adminOnly": command.admin_only,
                **({} if command.role is Role.ANY else {"secondaryOverrideOk": command.role is Role.SECONDARY_OK}),
                "apiVersions": ["1"] if command.stable else [],
                "deprecatedApiVersions": [],
            }
            for command in context.services.table
        }
    }


COMMAND = Command("listCommands", run, privilege=PUBLIC, role=Role.ANY, help="every command of this server")
