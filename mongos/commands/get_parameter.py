"""`getParameter`: facts about this router; it has no parameters that can be set."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from docstore.commands.limits import FEATURE_VERSION
from docstore.errors import Code, CommandError

_FACTS: dict[str, Any] = {"featureCompatibilityVersion": {"version": FEATURE_VERSION}, "authenticationMechanisms": []}


def run(context: Context, args: Arguments) -> dict[str, Any]:
    asked = None if args.value is None else to_python(args.value)
    if asked == "*" or (isinstance(asked, dict) and asked.get("allParameters")):
        return dict(_FACTS)
    found = {name: _FACTS[name] for name in context.body if name in _FACTS}
    if not found:
        raise CommandError(Code.InvalidOptions, "no option found to get")
    return found


COMMAND = Command(
    "getParameter",
    run,
    privilege=Privilege("getParameter", Resource.CLUSTER),
    role=Role.ANY,
    admin_only=True,
    tolerant=True,
    help="Facts about this router by name.",
)
