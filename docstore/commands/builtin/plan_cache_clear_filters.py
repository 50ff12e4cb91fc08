"""planCacheClearFilters: plans are chosen anew for every query and never kept, so there is nothing to forget."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type


def run(_context: Context, _arguments: Arguments) -> Result:
    return {}


COMMAND = Command(
    "planCacheClearFilters", run, privilege=Privilege("planCacheWrite", Resource.COLLECTION), role=Role.SECONDARY_OK,
    value=Type.COLLECTION,
    parameters=(
        Parameter("query", Type.OBJECT), Parameter("sort", Type.OBJECT), Parameter("projection", Type.OBJECT),
        Parameter("collation", Type.OBJECT),
    ),
    help="no plan is kept",
)  # fmt: skip
