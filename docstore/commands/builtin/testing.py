"""Test commands, served only with `--setParameter enableTestCommands=1`: fail points (`docstore.commands.fail_points`),
and commands outside of version 1 of the Stable API, or of an unknown version.
"""

from __future__ import annotations

from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.fail_points.registry import CONFIGURE
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError


def configure_fail_point(context: Context, arguments: Arguments) -> Result:
    code, data = arguments.value
    name = text_of(data) if code == STRING else ""
    points = context.services.fail_points
    if points is None or name not in points.by_name:
        raise CommandError(Code.FailPointSetFailed, f"{name} not found")
    if "mode" not in arguments:
        raise CommandError(Code.IllegalOperation, "When setting a failpoint, you must supply a 'mode'")
    return {"count": points.configure(name, arguments["mode"], arguments["data"])}


def succeed(_context: Context, _arguments: Arguments) -> Result:
    return {}


COMMANDS: tuple[Command, ...] = (
    Command(
        CONFIGURE, configure_fail_point, privilege=Privilege("setParameter", Resource.CLUSTER), role=Role.ANY,
        admin_only=True, parameters=(Parameter("mode", Type.ANY), Parameter("data", Type.OBJECT)), tolerant=True,
        help="make commands fail on purpose",
    ),
    *(
        Command(name, succeed, privilege=PUBLIC, role=Role.ANY, help="for tests of the Stable API")
        for name in ("testDeprecation", "testDeprecationInVersion2", "testRemoval", "testVersion2")
    ),
)  # fmt: skip
