"""Declaration of the commands by which the processes of a cluster read and change the catalog."""

from __future__ import annotations

from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Run, Type


def catalog_command(
    name: str, run: Run, *, value: Type = Type.ANY, parameters: tuple[Parameter, ...] = (), help: str
) -> Command:
    """Return an internal command of the primary. It takes no write concern: it waits for a majority itself."""
    return Command(
        name,
        run,
        privilege=INTERNAL,
        role=Role.PRIMARY,
        write_concern=False,
        value=value,
        parameters=parameters,
        help=help,
    )
