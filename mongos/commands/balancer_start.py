"""`balancerStart`: let chunks be moved by the balancers again."""

from __future__ import annotations

from typing import Any

from docstore.commands.access.catalog_needs import settings_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    await router_of(context).settings.set_balancing(True)
    return {}


COMMAND = Command(
    "balancerStart",
    run,
    privilege=Privilege("update", Resource.CLUSTER),
    needs=settings_needs("update"),
    role=Role.ANY,
    admin_only=True,
    write_concern=True,
    help="Turn balancing on.",
)
