"""logRotate: the log goes on in a new file; the old one gets the time as a suffix."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.node import node_of

LOG = component("CONTROL")


def run(context: Context, _arguments: Arguments) -> Result:
    node = node_of(context)
    path = node.settings.log_path
    if path is None:
        raise CommandError(Code.OperationFailed, "the log goes to standard error: there is no file to rotate")
    stamp = datetime.fromtimestamp(node.wall_clock(), UTC).strftime("%Y-%m-%dT%H-%M-%S")
    with contextlib.suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.{stamp}"))
    # The log opens its file anew when it is no longer where it was.
    LOG.info("Log rotated", file=str(path))
    return {}


COMMAND = Command(
    "logRotate", run, privilege=Privilege("logRotate", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="begin a new log file",
)  # fmt: skip
