"""Index filters cannot be set: there are none to forget or list."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.specs.catalog import PLAN_CACHE_SHAPE


def clear(_context: Context, _arguments: Arguments) -> Result:
    return {}


def list_filters(_context: Context, _arguments: Arguments) -> Result:
    return {"filters": []}


COMMANDS: tuple[Command, ...] = (
    Command(
        "planCacheClearFilters", clear, privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION),
        role=Role.SECONDARY_OK, value=Type.COLLECTION, parameters=PLAN_CACHE_SHAPE,
        help="index filters: there are none",
    ),
    Command(
        "planCacheListFilters", list_filters, privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION),
        role=Role.SECONDARY_OK, value=Type.COLLECTION, help="index filters: there are none",
    ),
)  # fmt: skip
