"""lockInfo, which reports no locks, and killCursors."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.commands.access.catalog_needs import kill_cursors_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.query.pausing import PAUSED, allowing
from docstore.query.value.long_lists import paced


def kill_cursors(context: Context, arguments: Arguments) -> Result:
    """End the cursors, whatever collection the request names, as the real server does."""
    killed: list[Int64] = []
    missing: list[Int64] = []

    def kill() -> None:
        for cursor_id in paced(arguments["cursors"]):
            was_open = context.services.cursors.kill(cursor_id)
            (killed if was_open else missing).append(Int64(cursor_id))

    allowing(PAUSED, kill)
    return {"cursorsKilled": killed, "cursorsNotFound": missing, "cursorsAlive": [], "cursorsUnknown": []}


def lock_info(_context: Context, _arguments: Arguments) -> Result:
    """Return no locks: commands take turns on one event loop."""
    return {"lockInfo": []}


COMMANDS: tuple[Command, ...] = (
    Command(
        "killCursors", kill_cursors, privilege=Privilege("killCursors", Resource.COLLECTION), role=Role.ANY,
        value=Type.COLLECTION, parameters=(Parameter("cursors", Type.LONGS, required=True),), stable=True,
        in_transactions=True, needs=kill_cursors_needs, pausable=True, help="end cursors",
    ),
    Command(
        "lockInfo", lock_info, privilege=Privilege("serverStatus", Resource.CLUSTER), role=Role.ANY, admin_only=True,
        tolerant=True, help="locks that are held: there are none",
    ),
)  # fmt: skip
