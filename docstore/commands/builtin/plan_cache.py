"""Plans are chosen anew for every query and never kept, and index filters cannot be set: nothing to forget or list."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type

_SHAPE = tuple(Parameter(name, Type.OBJECT) for name in ("query", "sort", "projection", "collation"))


def clear(_context: Context, _arguments: Arguments) -> Result:
    return {}


def list_filters(_context: Context, _arguments: Arguments) -> Result:
    return {"filters": []}


COMMANDS: tuple[Command, ...] = (
    Command(
        "planCacheClear", clear, privilege=Privilege("planCacheWrite", Resource.COLLECTION), role=Role.SECONDARY_OK,
        value=Type.COLLECTION, parameters=_SHAPE, help="no plan is kept",
    ),
    Command(
        "planCacheClearFilters", clear, privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION),
        role=Role.SECONDARY_OK, value=Type.COLLECTION, parameters=_SHAPE, help="no plan is kept",
    ),
    Command(
        "planCacheListFilters", list_filters, privilege=Privilege("planCacheIndexFilter", Resource.COLLECTION),
        role=Role.SECONDARY_OK, value=Type.COLLECTION, help="index filters: there are none",
    ),
)  # fmt: skip
