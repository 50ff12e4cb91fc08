"""Commands of drivers' tests that belong to no version of the Stable API, or to one that is not there."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role


def run(_context: Context, _arguments: Arguments) -> Result:
    return {}


_NAMES = ("testDeprecation", "testDeprecationInVersion2", "testRemoval", "testVersion2")
COMMANDS = tuple(
    Command(name, run, privilege=PUBLIC, role=Role.ANY, help="for tests of the Stable API") for name in _NAMES
)
