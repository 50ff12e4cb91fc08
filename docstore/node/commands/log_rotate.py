"""logRotate: the log goes on in a new file; the old one gets the time as a suffix."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.node import node_of

LOG = component("CONTROL")


_KINDS = frozenset(("server", "audit"))


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    path = node.settings.log_path
    code, data = arguments.value
    if code == STRING and text_of(data) not in _KINDS:
        raise CommandError(Code.NoSuchKey, f"there is no log of the kind '{text_of(data)}'")
    if path is None:
        # Standard error has no file that could be begun anew.
        return {}
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
