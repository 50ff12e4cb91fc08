"""configureFailPoint: make commands fail on purpose, for tests of drivers (`docstore.commands.fail_points`).

Served by a process that was started with `--setParameter enableTestCommands=1`, and by no other.
"""

from __future__ import annotations

from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.fail_points import CONFIGURE
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    code, data = arguments.value
    name = text_of(data) if code == STRING else ""
    points = context.services.fail_points
    if points is None or name not in points.by_name:
        raise CommandError(Code.FailPointSetFailed, f"{name} not found")
    if "mode" not in arguments:
        raise CommandError(Code.IllegalOperation, "When setting a failpoint, you must supply a 'mode'")
    return {"count": points.configure(name, arguments["mode"], arguments["data"])}


COMMAND = Command(
    CONFIGURE, run, privilege=Privilege("configureFailPoint", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("mode", Type.ANY), Parameter("data", Type.OBJECT)), tolerant=True,
    help="make commands fail on purpose",
)  # fmt: skip
