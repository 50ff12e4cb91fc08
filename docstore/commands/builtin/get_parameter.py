"""getParameter: server parameters by name, or all of them with "*"."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.bson.walk import OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.commands.parameters import ServerParameter
from docstore.errors import NO_CODE, CommandError

_OPTIONS = frozenset(("showDetails", "allParameters"))


def run(context: Context, arguments: Arguments) -> Result:
    parameters = context.services.parameters
    wanted, details = _options(arguments)
    body = context.body
    shown = {parameter.name: _shown(parameter, details) for parameter in parameters if wanted or parameter.name in body}
    points = context.services.fail_points
    for name, point in () if points is None else points.by_name.items():
        if wanted or f"failpoint.{name}" in body:
            shown[f"failpoint.{name}"] = {
                "mode": int(point.active), "data": point.data, "timesEntered": point.times_entered,
            }  # fmt: skip
    if not shown:
        raise CommandError(NO_CODE, "no option found to get")
    return shown


def _options(arguments: Arguments) -> tuple[bool, bool]:
    """(whether all parameters are wanted, with details)."""
    value = arguments.value
    if value is None or value[0] != OBJECT:
        return value is not None and to_python(value) == "*", False
    options = to_python(value)
    for name in options:
        if name not in _OPTIONS:
            raise CommandError(40415, f"BSON field 'getParameter.{name}' is an unknown field.")
    return bool(options.get("allParameters")), bool(options.get("showDetails"))


def _shown(parameter: ServerParameter, details: bool) -> Any:
    return parameter.details() if details else parameter.get()


COMMAND = Command(
    "getParameter", run, privilege=Privilege("getParameter", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    tolerant=True, help="server parameters by name",
)  # fmt: skip
