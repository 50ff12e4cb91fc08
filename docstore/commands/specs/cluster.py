"""Declaration of the commands that the processes of a cluster send to each other's primaries."""

from __future__ import annotations

from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Run, Type


def internal_command(
    name: str,
    run: Run,
    *,
    value: Type = Type.ANY,
    parameters: tuple[Parameter, ...] = (),
    admin_only: bool = False,
    help: str,
) -> Command:
    """Return an internal command of the primary. It takes no write concern: what must be durable waits for a majority
    itself.
    """
    return Command(
        name,
        run,
        privilege=INTERNAL,
        role=Role.PRIMARY,
        write_concern=False,
        admin_only=admin_only,
        value=value,
        parameters=parameters,
        help=help,
    )
