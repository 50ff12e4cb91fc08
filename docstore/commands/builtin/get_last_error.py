"""getLastError: gone, as a command. A write is acknowledged in its own reply.

Clients that write with OP_INSERT, OP_UPDATE and OP_DELETE ask with OP_QUERY and are answered by
`docstore.commands.legacy.opcodes`.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role
from docstore.errors import CommandError


def run(_context: Context, _arguments: Arguments) -> Result:
    raise CommandError(5739000, "getLastError command is not supported")


COMMAND = Command(
    "getLastError", run, aliases=("getlasterror",), privilege=PUBLIC, role=Role.ANY, tolerant=True,
    help="refused: a write is acknowledged in its own reply",
)  # fmt: skip
