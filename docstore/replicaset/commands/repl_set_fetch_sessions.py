"""replSetFetchSessions: return session rows to a member in initial sync. Not a command of MongoDB."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role
from docstore.errors import Code, CommandError
from docstore.replicaset.access import initiated_set_of
from docstore.replicaset.sync.session_rows import COMMAND_NAME, rows_after


def run(context: Context, arguments: Arguments) -> Result:
    key = context.body.get("after")
    if not isinstance(key, bytes):
        raise CommandError(Code.TypeMismatch, "'after' must be the key of a row, or empty")
    return rows_after(initiated_set_of(context).membership.store, key)


COMMAND = Command(
    COMMAND_NAME, run, privilege=INTERNAL, role=Role.ANY, admin_only=True, tolerant=True,
    help="between members of a set",
)  # fmt: skip
