"""killCursors: end cursors on a collection."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type


def run(context: Context, arguments: Arguments) -> Result:
    killed: list[Int64] = []
    missing: list[Int64] = []
    for cursor_id in arguments["cursors"]:
        found = context.services.cursors.kill(cursor_id, context.namespace)
        (killed if found else missing).append(Int64(cursor_id))
    return {"cursorsKilled": killed, "cursorsNotFound": missing, "cursorsAlive": [], "cursorsUnknown": []}


COMMAND = Command(
    "killCursors", run, privilege=Privilege("killCursors", Resource.COLLECTION), role=Role.ANY, value=Type.COLLECTION,
    parameters=(Parameter("cursors", Type.INTEGERS, required=True),), stable=True, help="end cursors",
)  # fmt: skip
