"""Parameters of the commands that the donor of a migration sends to the recipient's primary."""

from __future__ import annotations

from docstore.commands.declaration import Parameter, Type


def required(name: str, type_: Type) -> Parameter:
    """Return a parameter that every donor sends."""
    return Parameter(name, type_, required=True, internal=True)


MIGRATION_ID = required("migrationId", Type.UUID)
NUMBER = required("number", Type.LONG)
"""The batch's number, from 1. A batch that was taken before is acknowledged and ignored."""
