"""logRotate: the log goes on in a new file; the old one gets the time as a suffix."""

from __future__ import annotations

from docstore import log
from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError


def run(_context: Context, arguments: Arguments) -> Result:
    code, data = arguments.value
    if code == STRING and text_of(data) != "server":
        raise CommandError(Code.NoSuchKey, f"there is no log of the kind '{text_of(data)}'")
    try:
        # Standard error has no file that could be begun anew, and the real server says ok then too.
        log.rotate()
    except OSError as error:
        raise CommandError(Code.OperationFailed, f"Log rotation failed: {error.strerror}") from None
    return {}


COMMAND = Command(
    "logRotate", run, privilege=Privilege("logRotate", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="begin a new log file",
)  # fmt: skip
