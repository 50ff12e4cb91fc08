"""planCacheListFilters: index filters cannot be set, so there are none."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type


def run(_context: Context, _arguments: Arguments) -> Result:
    return {"filters": []}


COMMAND = Command(
    "planCacheListFilters", run, privilege=Privilege("planCacheRead", Resource.COLLECTION), role=Role.SECONDARY_OK,
    value=Type.COLLECTION, help="index filters: there are none",
)  # fmt: skip
