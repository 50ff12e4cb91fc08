"""setParameter: change server parameters while the server runs."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.errors import NO_CODE, CommandError

_ENVELOPE = ENVELOPE_FIELDS | {"setParameter"}


def run(context: Context, _arguments: Arguments) -> Result:
    parameters = context.services.parameters
    asked: dict[str, Any] = {name: value for name, value in context.body.items() if name not in _ENVELOPE}
    if not asked:
        raise CommandError(NO_CODE, "no option found to set, use help:true to see options")
    was = None
    for name, value in asked.items():
        before = parameters.put(name, value)
        was = before if was is None else was
    return {"was": was}


COMMAND = Command(
    "setParameter", run, privilege=Privilege("setParameter", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    tolerant=True, help="change server parameters",
)  # fmt: skip
