"""getParameter: server parameters by name, or all of them with "*"."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.errors import Code, CommandError
from docstore.node.node import node_of


def run(context: Context, arguments: Arguments) -> Result:
    parameters = node_of(context).parameters
    asked = None if arguments.value is None else to_python(arguments.value)
    if asked == "*" or (isinstance(asked, dict) and asked.get("allParameters")):
        return {parameter.name: parameter.get() for parameter in parameters}
    found: dict[str, Any] = {name: parameters.get(name) for name in context.body if name in parameters}
    if not found:
        raise CommandError(Code.InvalidOptions, "no option found to get")
    return found


COMMAND = Command(
    "getParameter", run, privilege=Privilege("getParameter", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    tolerant=True, help="server parameters by name",
)  # fmt: skip
