"""getParameter, setParameter, and the feature version, which has a single value that can only be confirmed."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.bson.walk import OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.commands.parameters import ServerParameter
from docstore.errors import NO_CODE, CommandError

_OPTIONS = frozenset(("showDetails", "allParameters"))
_NO_PARAMETERS = ENVELOPE_FIELDS | {"setParameter"}


def get_parameter(context: Context, arguments: Arguments) -> Result:
    """Return the named parameters, or all of them with "*"."""
    parameters = context.services.parameters
    all_parameters, details = _options(arguments)
    body = context.body
    reply = {
        parameter.name: _describe(parameter, details)
        for parameter in parameters
        if all_parameters or parameter.name in body
    }
    points = context.services.fail_points
    for name, point in () if points is None else points.by_name.items():
        if all_parameters or f"failpoint.{name}" in body:
            reply[f"failpoint.{name}"] = {
                "mode": int(point.active), "data": point.data, "timesEntered": point.times_entered,
            }  # fmt: skip
    if not reply:
        raise CommandError(NO_CODE, "no option found to get")
    return reply


def _options(arguments: Arguments) -> tuple[bool, bool]:
    """Return (all parameters are requested, details are requested)."""
    value = arguments.value
    if value is None or value[0] != OBJECT:
        return value is not None and to_python(value) == "*", False
    options = to_python(value)
    for name in options:
        if name not in _OPTIONS:
            raise CommandError(40415, f"BSON field 'getParameter.{name}' is an unknown field.")
    return bool(options.get("allParameters")), bool(options.get("showDetails"))


def _describe(parameter: ServerParameter, details: bool) -> Any:
    return parameter.details() if details else parameter.get()


def set_parameter(context: Context, _arguments: Arguments) -> Result:
    parameters = context.services.parameters
    settings: dict[str, Any] = {name: value for name, value in context.body.items() if name not in _NO_PARAMETERS}
    if not settings:
        raise CommandError(NO_CODE, "no option found to set, use help:true to see options")
    was = None
    for name, value in settings.items():
        before = parameters.assign(name, value)
        was = before if was is None else was
    return {"was": was}


def set_feature_version(context: Context, arguments: Arguments) -> Result:
    version = context.services.switches.face.feature_version
    if arguments.value != version:
        raise CommandError(
            4926900, f"Invalid feature compatibility version value, this server has '{version}' and no other"
        )
    return {}


COMMANDS: tuple[Command, ...] = (
    Command(
        "getParameter", get_parameter, privilege=Privilege("getParameter", Resource.CLUSTER), role=Role.ANY,
        admin_only=True, tolerant=True, help="server parameters by name",
    ),
    Command(
        "setParameter", set_parameter, privilege=Privilege("setParameter", Resource.CLUSTER), role=Role.ANY,
        admin_only=True, tolerant=True, help="change server parameters",
    ),
    Command(
        "setFeatureCompatibilityVersion", set_feature_version,
        privilege=Privilege("setFeatureCompatibilityVersion", Resource.CLUSTER), role=Role.PRIMARY,
        user_first=True, admin_only=True,
        value=Type.STRING,
        parameters=(Parameter("confirm", Type.BOOL), Parameter("downgradeOnDiskChanges", Type.BOOL)),
        help="confirm the feature version",
    ),
)  # fmt: skip
